"""Durations: one rule for pages and commands."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from sagelet_api.cli.training_jobs import trained_seconds
from sagelet_api.durations import lasted
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.0, "0.0 s"),
        (0.3, "0.3 s"),
        (9.99, "9.9 s"),
        (9, "9 s"),
        (38.9, "38 s"),
        (60, "1 min"),
        (250, "4 min 10 s"),
        (3600, "1 h"),
        (10_950, "3 h 2 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_what_is_smaller_than_the_last_unit_is_cut_off(seconds: float | None, text: str) -> None:
    assert lasted(seconds) == text


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


def test_the_list_the_job_s_page_and_commands_have_the_same_seconds(world: ApiWorld) -> None:
    """30.9 s of which AWS counts 31: it takes whole seconds of the clock at both ends."""
    world.create("train")
    world.clock.turn(10.2)
    (host,) = world.all_hosts("train")
    world.clock.turn(30.9)
    host.end(0)
    world.ended("train")
    job = world.sagemaker.describe_training_job(TrainingJobName="train")
    seconds = job["TrainingTimeInSeconds"]
    assert trained_seconds(job, datetime.now(timezone.utc)) == seconds
    in_list = re.findall(r">\s*(\d+ s)\s*<", world.page("/").data.decode())
    on_page = re.search(
        r'<th scope="row">Training</th><td>(.*?)</td>', world.page("/_sagelet/ui/jobs/train").data.decode()
    )
    assert on_page is not None
    assert (in_list, on_page[1]) == ([lasted(seconds)], lasted(seconds))


def test_a_job_that_runs_has_whole_seconds() -> None:
    now = datetime.now(timezone.utc)
    assert trained_seconds({"TrainingStartTime": now - timedelta(seconds=38.9)}, now) == 38
