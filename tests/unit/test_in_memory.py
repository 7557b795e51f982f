"""Where tests write: in memory, where there is enough of it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from support import in_memory

GONE = 2**22 + 1  # Above the largest number that Linux gives a process.


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(in_memory, "MEMORY", tmp_path)
    monkeypatch.setattr(in_memory, "ROOM", 1)
    return tmp_path


def chosen(basetemp: str | None = None) -> SimpleNamespace:
    config = SimpleNamespace(option=SimpleNamespace(basetemp=basetemp))
    in_memory.choose(config)  # type: ignore[arg-type]
    return config


def test_a_run_has_a_directory_of_its_own_until_its_end(memory: Path) -> None:
    place = memory / f"sagelet-tests-{os.getpid()}"
    config = chosen()
    assert (config.option.basetemp, place.stat().st_mode & 0o777) == (str(place), 0o700)
    in_memory.remove(config)  # type: ignore[arg-type]
    assert list(memory.iterdir()) == []


def test_what_a_killed_run_left_goes_and_what_another_writes_stays(memory: Path) -> None:
    # The first process always runs.
    for owner in (GONE, "of-nobody", 1):
        (memory / f"sagelet-tests-{owner}" / "test_0").mkdir(parents=True)
    chosen()
    assert {one.name for one in memory.iterdir()} == {f"sagelet-tests-{one}" for one in (os.getpid(), 1)}


def test_somebody_elses_place_is_left_alone(memory: Path) -> None:
    config = chosen("elsewhere")
    in_memory.remove(config)  # type: ignore[arg-type]
    assert (config.option.basetemp, list(memory.iterdir())) == ("elsewhere", [])


@pytest.mark.parametrize(("flags", "room"), [(os.ST_NOEXEC, 1), (0, 1 << 60)], ids=["no programs", "no room"])
def test_the_disk_is_taken_instead(memory: Path, monkeypatch: pytest.MonkeyPatch, flags: int, room: int) -> None:
    about = SimpleNamespace(f_flag=flags, f_bavail=1 << 30, f_frsize=4096)
    monkeypatch.setattr(in_memory.os, "statvfs", lambda _place: about)
    monkeypatch.setattr(in_memory, "ROOM", room)
    assert chosen().option.basetemp is None
