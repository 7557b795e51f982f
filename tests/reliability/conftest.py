from collections.abc import Callable, Iterator

import pytest

from support.programs import asks
from support.server import SageletProcess, servers_by_runtime
from support.shell_jobs import IMAGES, Neighbour, ShellJobs

RUNTIMES = [pytest.param("process", marks=pytest.mark.xla), pytest.param("docker", marks=pytest.mark.docker)]


@pytest.fixture(scope="module")
def shell_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SageletProcess]]:
    """The server of a runtime, from its first test to the end of the file."""
    with servers_by_runtime(tmp_path_factory.mktemp, "--max-jobs", "3", "--stop-grace", "2") as servers:
        yield servers


@pytest.fixture(params=RUNTIMES)
@asks("busybox")
def shell_jobs(request: pytest.FixtureRequest, shell_servers: Callable[[str], SageletProcess]) -> ShellJobs:
    """Jobs of each runtime in turn."""
    image = IMAGES.get(request.param) or _tiny_image()
    return ShellJobs(shell_servers(request.param), image)


def _tiny_image() -> str:
    import docker

    from support.tiny_image import ensure

    client = docker.from_env()
    try:
        return ensure(client)
    finally:
        client.close()


@pytest.fixture
@asks("busybox")
def neighbour(shell_jobs: ShellJobs) -> Iterator[Neighbour]:
    with Neighbour(shell_jobs) as running:
        yield running
