"""One path each of failure, stop, spot and checkpoints on a real `sagelet up --runtime docker`, on a real clock.

A client sees there what is recorded on the process runtime, but for the times.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from support.lab import opt_mls
from support.server import SageletProcess, until
from support.story import Story
from support.tiny_image import ensure
from support.transcripts import PATHS, Step, compare_timeless
from transcripts import attempts, ends, results, stops  # noqa: F401 - they register their paths

pytestmark = [pytest.mark.docker, pytest.mark.programs("busybox")]


class DockerStage:
    """See `support.transcripts.Stage`."""

    tells_time = False

    def __init__(self, data: Path, image: str) -> None:
        self.image = image
        self._data = data
        self._server = SageletProcess(data, "--runtime", "docker")
        self.client = self._server.client
        self.interrupt = self._server.interrupt

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def watch(self, job_name: str) -> None:
        """Nobody is held here."""

    def seen(self, job_name: str) -> None:
        """Nobody waits for it here."""

    def next_step(self) -> Step:
        raise NotImplementedError("this stage holds nobody")

    def now(self) -> float:
        return time.time()

    def turn(self, seconds: float) -> None:
        """A little, so that there is something to bill."""
        over = time.monotonic() + min(seconds, 2)
        until(lambda: time.monotonic() >= over)

    def touch(self, word: str) -> None:
        for opt_ml in opt_mls(self._data):
            (opt_ml / word).touch()

    def lose_host(self) -> None:
        raise NotImplementedError("no path on Docker needs it")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerStage]:
    client = docker.from_env()
    made = DockerStage(tmp_path_factory.mktemp("data"), ensure(client))
    client.close()
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("name", ["script-error", "stop-in-training", "spot-interrupted", "checkpoints"])
def test_the_client_sees_what_is_recorded(stage: DockerStage, name: str) -> None:
    story = Story(stage, name)
    PATHS[name].play(story)
    compare_timeless(PATHS[name], story.transcript())
    job: dict[str, Any] = story.describe()
    if job["EnableManagedSpotTraining"]:
        assert job["BillableTimeInSeconds"] < job["TrainingTimeInSeconds"]
