import os
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import docker
import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.runtimes.docker.engine import DockerFacts, facts
from sagelet_engine.runtimes.docker.runtime import DockerRuntime
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
from sagelet_engine.runtimes.slurm.task import ContainerTask
from support.harness import Harness
from support.private_podman import PrivatePodman
from support.programs import asks
from support.slurm_cluster import SlurmCluster
from support.slurm_jobs import slurm_runtime
from support.tiny_image import REFERENCE as TINY
from support.tiny_image import ensure

#: A program in place of the image's `train`.
TRAIN = (sys.executable, "-c", "print('trained')")


def make_process(directory: Path) -> ProcessRuntime:
    return ProcessRuntime(directory / "state", StandIn(TRAIN, "/nowhere"), SystemClock())


@pytest.fixture(scope="session")
def docker_client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
@asks("busybox")
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


@pytest.fixture(scope="session")
def podman() -> Iterator[PrivatePodman]:
    service = PrivatePodman()
    try:
        service.start()
        service.load_tiny_image()
        yield service
    finally:
        service.close()


@pytest.fixture(scope="session")
def podman_facts(podman: PrivatePodman) -> DockerFacts:
    """What Podman says of itself. On Debian it asks dpkg each time, which takes seconds on a busy machine."""
    client = podman.client()
    try:
        return facts(client)
    finally:
        client.close()


@pytest.fixture
def podman_client(podman: PrivatePodman) -> Iterator[docker.DockerClient]:
    client = podman.client()
    yield client
    client.close()


@pytest.fixture
@asks("busybox")
def podman_host(tmp_path: Path, podman_client: docker.DockerClient, podman_facts: DockerFacts) -> Iterator[Harness]:
    owner = uuid.uuid4().hex

    def make() -> DockerRuntime:
        runtime = DockerRuntime(podman_client, owner, SystemClock())
        runtime._facts = podman_facts
        return runtime

    harness = Harness("podman", make, tmp_path, TINY)
    yield harness
    harness.clean_up()
    assert podman_client.networks.list(filters={"label": f"org.sagelet.owner={owner}"}) == []


@pytest.fixture
def slurm_host(tmp_path: Path, slurm_cluster: SlurmCluster) -> Iterator[Harness]:
    owner = uuid.uuid4().hex
    harness = Harness("slurm", lambda: slurm_runtime(slurm_cluster, tmp_path / "slurm", owner, TRAIN), tmp_path)
    yield harness
    harness.clean_up()
    slurm_cluster.clear()


@pytest.fixture
def slurm_docker_host(tmp_path: Path, slurm_cluster: SlurmCluster, tiny_image: str) -> Iterator[Harness]:
    owner = uuid.uuid4().hex
    queue = partial(slurm_runtime, slurm_cluster, tmp_path / "slurm", owner, TRAIN)
    task = ContainerTask("docker", owner, sys.executable, kill_wait=10)
    harness = Harness("slurm_docker", lambda: queue(task=task), tmp_path, tiny_image)
    yield harness
    harness.clean_up()
    slurm_cluster.clear()


#: Of the image that their tests run.
BUSYBOX = pytest.mark.programs("busybox")
RUNTIMES = [
    "process",
    pytest.param("docker", marks=[pytest.mark.docker, BUSYBOX]),
    pytest.param("podman", marks=[pytest.mark.podman, BUSYBOX]),
    pytest.param("slurm", marks=pytest.mark.slurm),
]
if os.environ.get("SAGELET_TEST_CONTRACT") == "all":
    # This takes minutes more. tests/slurm/test_containers.py tests what is special about it.
    RUNTIMES.append(pytest.param("slurm_docker", marks=[pytest.mark.slurm, pytest.mark.docker, BUSYBOX]))


@pytest.fixture(params=RUNTIMES)
def host(request: pytest.FixtureRequest) -> Harness:
    """Each runtime in turn. A test must pass on all of them."""
    harness: Harness = request.getfixturevalue(f"{request.param}_host")
    return harness
