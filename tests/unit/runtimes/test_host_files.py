"""The end of a host on a full disk (tests/reliability/test_disks.py has a real one)."""

from pathlib import Path

import pytest

from sagelet_engine.base import json_files
from sagelet_engine.runtimes.node import host_files


def test_what_has_its_space_is_written_into_it(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    json_files.reserve(path)
    inode = (tmp_path / "exit.json.reserved").stat().st_ino
    assert json_files.read_json(path) is None
    json_files.write_reserved(path, {"exit_code": 9})
    assert json_files.read_json(path) == {"exit_code": 9}
    assert path.stat().st_ino == inode
    assert [one.name for one in tmp_path.iterdir()] == ["exit.json"]


def test_what_is_longer_takes_more(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    json_files.reserve(path)
    json_files.write_reserved(path, {"error": "x" * 5000})
    assert json_files.read_json(path) == {"error": "x" * 5000}


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(host_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        json_files.write_json(tmp_path / "exit.json", {"exit_code": 9})
    assert list(tmp_path.iterdir()) == []
