"""`sagelet` in this process, against a server on fakes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld


@pytest.fixture(scope="module")
def bridge() -> MotoBridge:
    return MotoBridge()


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as made:
        yield made


@pytest.fixture
def sagelet(world: ApiWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs a command against the world's server, with nothing of the machine's own configuration."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "SAGELET_DATA"):
        monkeypatch.delenv(name, raising=False)
    # Commands poll without a pause, because they wait for what the test itself does.
    monkeypatch.setattr("sagelet_api.cli.wait.EVERY", 0.01)
    monkeypatch.setattr("sagelet_api.cli.logs.EVERY", 0.01)
    server = ["--endpoint", f"http://127.0.0.1:{world.port}", "--account", ACCOUNT, "--region", REGION]
    data = ["--data", str(tmp_path / "nowhere")]
    return lambda *words: CliRunner().invoke(main, [*words, *server, *data])
