"""The few steps of a build: their names in the Dockerfile, their seconds and bytes, and how they are shown."""

import io
import re

import pytest
from rich.console import Console

from sagelet_api.cli.progress import BuildProgress
from sagelet_engine.images.base import REGISTRY_BASE
from sagelet_engine.images.builder import BuildOptions, build
from sagelet_engine.images.context import DOCKERFILE, find_root
from sagelet_engine.images.output import BuildEvent, BuildOutput, EventKind
from sagelet_engine.images.steps import Steps, headings
from support.docker_double import EngineDouble, Recorder

END = EventKind.END
TWO = """# A comment
ARG A
FROM ${A}
## system
RUN a; \\
    ## no heading: it is inside of an instruction
    b
# Another one
## torch
COPY c d
RUN e
"""
MEGABYTES = {"0" * 12: 100, "1" * 12: 150, "2" * 12: 150, "3" * 12: 1150}


def test_a_heading_takes_the_instructions_below_it() -> None:
    assert headings(TWO) == {1: "system", 4: "torch"}


def test_the_image_has_five_steps() -> None:
    names = headings((find_root() / DOCKERFILE).read_text(encoding="utf-8"))
    assert len(names) == 4
    assert min(names) == 1


def test_each_step_says_its_seconds_and_bytes(report: Recorder) -> None:
    """A step of which each instruction has a layer from an earlier build has no seconds."""
    now = iter((0.0, 5.0, 10.0, 20.0, 90.0))
    steps = Steps(headings(TWO), report, lambda image: MEGABYTES.get(image), lambda: next(now))
    steps.begin()
    steps.end(ran=True, image="0" * 12)
    stream = (
        f"Step 1/5 : ARG A\nStep 2/5 : FROM x\n ---> {'0' * 12}\n"
        f"Step 3/5 : RUN a; b\n ---> Using cache\n ---> {'1' * 12}\n"
        f"Step 4/5 : COPY c d\n ---> {'2' * 12}\nStep 5/5 : RUN e\n ---> Running in 0123456789ab\nout\n"
        f"Removed intermediate container 0123456789ab\n ---> {'3' * 12}\n"
    )
    for event in BuildOutput().events([{"stream": stream}]):
        steps.report(event)
    steps.finish("3" * 12)
    ends = [(event.step, event.steps, event.text, event.seconds, event.size) for event in report if event.kind is END]
    assert ends == [
        (1, 3, "base image", 5.0, 100),
        (2, 3, "system", None, 50),
        (3, 3, "torch", 70.0, 1000),
    ]
    assert [event.text for event in report if event.kind is EventKind.OUTPUT][-2:] == ["RUN e", "out"]


def test_podmans_images_are_read() -> None:
    events = BuildOutput().events([{"stream": f"STEP 1/1: FROM x\n--> {'4' * 12}\n"}])
    assert [(event.kind, event.text) for event in events] == [
        (EventKind.STEP, "FROM x"),
        (EventKind.IMAGE, "4" * 12),
    ]


def test_a_build_begins_with_what_it_takes(report: Recorder) -> None:
    build(BuildOptions(), report, EngineDouble(local={REGISTRY_BASE: {}}))
    first = next(event for event in report if event.kind is EventKind.NOTE and "disk" in event.text)
    assert "takes 3 GB of disk" in first.text


def test_a_log_has_a_line_for_each_step_and_no_colours() -> None:
    """Brackets in a name stay as they are. What runs now is shown on terminals only."""
    out = io.StringIO()
    with BuildProgress(Console(file=out, width=1000)) as progress:
        progress.report(BuildEvent(EventKind.STEP, "torch [x]", 2, 5))
        progress.report(BuildEvent(EventKind.OUTPUT, "noise", 2, 5))
        progress.report(BuildEvent(EventKind.END, "torch [x]", 2, 5, seconds=41.24, size=1_100_000_000))
        progress.report(BuildEvent(EventKind.STEP, "rest", 3, 5))
        progress.report(BuildEvent(EventKind.END, "rest", 3, 5))
    assert out.getvalue() == "[2/5] torch [x]\n      41.2 s, 1.1 GB\n[3/5] rest\n      there already\n"


def test_no_colour_is_written_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    with BuildProgress(Console(file=out, width=100, force_terminal=True)) as progress:
        progress.report(BuildEvent(EventKind.STEP, "torch", 2, 5))
        progress.report(BuildEvent(EventKind.PROGRESS, "torch.whl", 2, 5, done=1, total=2))
    assert "torch.whl" in out.getvalue()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", out.getvalue())
