"""Every path on the process runtime, on a clock that is turned by hand: all that a client sees, times included."""

from pathlib import Path

import pytest

from support.lab import Lab
from support.story import Story
from support.transcripts import PATHS, RECORDED, compare
from transcripts import attempts, ends, results, stops  # noqa: F401 - they register their paths


@pytest.mark.parametrize("name", PATHS)
def test_the_client_sees_what_is_recorded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = PATHS[name]
    with Lab(tmp_path, monkeypatch, **path.settings) as lab:
        story = Story(lab, name)
        path.play(story)
        compare(path, story.transcript())


def test_every_recorded_transcript_has_a_path() -> None:
    assert {file.stem for file in RECORDED.iterdir()} == set(PATHS)
