import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.images.engine import connect, image_id
from sagelet_engine.images.rules import BUILT_IN
from sagelet_engine.images.variants import PY39
from support.jobs import Jobs
from support.on_runtimes import RUNTIMES
from support.proxy import RecordingProxy
from support.server import ENVIRONMENT, SageletProcess, servers_by_runtime


def _has(reference: str) -> bool:
    try:
        return image_id(connect(), reference) is not None
    except RuntimeUnavailable:
        return False


def _rules_without_dated() -> str:
    """Returns the built-in rules without the image of 2022, because these tests are for the image without a suffix."""
    kept = [line for line in BUILT_IN.read_text().splitlines() if not line.startswith("dated")]
    with tempfile.NamedTemporaryFile("w", prefix="sagelet-rules-", suffix=".toml", delete=False) as file:
        file.write("\n".join(kept))
    return file.name


#: A variant that not every machine builds: it takes 6 GB and minutes. test_python_3_9.py tests what runs everywhere.
collect_ignore = ["test_image_of_2022.py"]
if _has(PY39.reference):
    collect_ignore = []
    ENVIRONMENT["SAGELET_IMAGE_RULES"] = _rules_without_dated()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SageletProcess]]:
    """Returns the server of a runtime, which runs from its first test to the end of the session.

    It is not a fixture with the runtime as its parameter: pytest ends such a fixture whenever the runtime changes.
    """
    with servers_by_runtime(tmp_path_factory.mktemp, "--max-jobs", "2", "--stop-grace", "60") as servers:
        yield servers


@pytest.fixture(params=RUNTIMES)
def server(request: pytest.FixtureRequest, servers: Callable[[str], SageletProcess]) -> SageletProcess:
    """One server for each runtime, for all tests that do not kill it."""
    return servers(request.param)


@pytest.fixture
def jobs(server: SageletProcess) -> Jobs:
    return Jobs(server)


@pytest.fixture(params=RUNTIMES)
def own_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SageletProcess]:
    """A server that the test may kill."""
    process = SageletProcess(tmp_path / "data", "--runtime", request.param).start()
    yield process
    process.stop()


@pytest.fixture
def proxy() -> Iterator[RecordingProxy]:
    """A proxy that records what client programs would send out of the machine."""
    with RecordingProxy() as recording:
        yield recording
