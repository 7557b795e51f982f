from collections.abc import Iterator
from pathlib import Path

import pytest

from support.jobs import Jobs
from support.server import SageletProcess

RUNTIMES = [
    pytest.param("process", marks=pytest.mark.xla),
    pytest.param("docker", marks=pytest.mark.docker),
]


@pytest.fixture(scope="session", params=RUNTIMES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    """One server a runtime for all tests that do not kill it."""
    data: Path = tmp_path_factory.mktemp(f"data-{request.param}")
    process = SageletProcess(data, "--runtime", request.param, "--max-jobs", "2", "--stop-grace", "60").start()
    yield process
    process.stop()


@pytest.fixture
def jobs(server: SageletProcess) -> Jobs:
    return Jobs(server)


@pytest.fixture(params=RUNTIMES)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SageletProcess]:
    """A server that the test may kill."""
    process = SageletProcess(tmp_path / "data", "--runtime", request.param).start()
    yield process
    process.stop()
