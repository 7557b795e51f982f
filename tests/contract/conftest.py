import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sagelet_engine.clock import SystemClock
from sagelet_engine.runtimes.docker import DockerRuntime
from sagelet_engine.runtimes.process import ProcessRuntime, StandIn
from support.harness import Harness
from support.tiny_image import ensure

#: Stands for the image's `train`.
TRAIN = (sys.executable, "-c", "print('trained')")


def make_process(directory: Path) -> ProcessRuntime:
    return ProcessRuntime(directory / "state", StandIn(TRAIN, "/nowhere"), SystemClock())


@pytest.fixture(scope="session")
def docker_client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
def tiny_image(docker_client: docker.DockerClient) -> str:
    return ensure(docker_client)


@pytest.fixture
def process_host(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness("process", lambda: make_process(tmp_path), tmp_path)
    yield harness
    harness.clean_up()


@pytest.fixture
def docker_host(tmp_path: Path, docker_client: docker.DockerClient, tiny_image: str) -> Iterator[Harness]:
    owner = uuid.uuid4().hex
    harness = Harness("docker", lambda: DockerRuntime(docker_client, owner, SystemClock()), tmp_path, tiny_image)
    yield harness
    harness.clean_up()
    labels = {"label": f"org.sagelet.owner={owner}"}
    assert docker_client.networks.list(filters=labels) == [], "a network of the job was left"


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def host(request: pytest.FixtureRequest) -> Harness:
    """Each runtime in turn: what a test says of it is true of all."""
    harness: Harness = request.getfixturevalue(f"{request.param}_host")
    return harness
