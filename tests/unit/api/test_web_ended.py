"""What has ended brings nothing more, so no page of it says `yet`."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web import PREFIX
from sagelet_engine.model.job import JobKey, JobKind
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.processing import processing_request
from support.world import until


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    """Jobs that are created here wait for the only place, so they have no host that prints."""
    with ApiWorld(tmp_path, bridge, max_jobs=1) as opened:
        opened.objects.put("b", "k", b"1")
        opened.create("first")
        until(lambda: opened.job("first").launched)
        yield opened


def says_yet(world: ApiWorld, path: str) -> bool:
    answer = world.page(f"{PREFIX}{path}")
    assert answer.status == 200
    return re.search(r"\byet\b", answer.data.decode()) is not None


@pytest.mark.parametrize("tab", ["", "/log", "/artifacts"])
def test_of_a_training_job(world: ApiWorld, tab: str) -> None:
    world.create("silent")
    assert says_yet(world, f"/jobs/silent{tab}")
    world.sagemaker.stop_training_job(TrainingJobName="silent")
    until(lambda: world.job("silent").terminal)
    assert not says_yet(world, f"/jobs/silent{tab}")


def test_of_a_processing_job(world: ApiWorld) -> None:
    world.sagemaker.create_processing_job(**processing_request("silent"))
    assert says_yet(world, "/processing/silent")
    world.sagemaker.stop_processing_job(ProcessingJobName="silent")
    key = JobKey(ACCOUNT, REGION, "silent", JobKind.PROCESSING)
    until(lambda: world.engine.processing.get(key).terminal)
    assert not says_yet(world, "/processing/silent")
