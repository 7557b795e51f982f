"""A server that cannot be put together gives back all that it has opened."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from sagelet_api.serve import Sagelet, Surroundings
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.machine.runtimes import Choice
from sagelet_engine.settings import Settings
from sagelet_engine.state.owner import lock_directory
from support.fakes import FakeClock, FakeRuntime
from support.front import SharedServer


def test_a_server_whose_last_part_fails_frees_the_data_directory(tmp_path: Path) -> None:
    class Broken(SharedServer):
        def __init__(self, *_: Any) -> None:
            raise SettingsError("no such address")

    surroundings = Surroundings(choice=Choice(FakeRuntime(FakeClock()), "a test"), server=Broken)
    with pytest.raises(SettingsError, match="no such address"):
        Sagelet(Settings(data=tmp_path / "data", port=0), surroundings)
    lock_directory(tmp_path / "data").close()
    assert [file.path for file in psutil.Process().open_files() if file.path.startswith(str(tmp_path))] == []
