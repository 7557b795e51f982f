"""The log of a host: what the shim copies, and what becomes of it on a full disk (a real one: tests/reliability)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_engine.runtimes.node import host_output


class FullDisk:
    """`os.write` on a disk with so much room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(host_output.os, "write", self.write)
        monkeypatch.setattr(host_output, "TIMEOUT_S", 0.0)

    def write(self, file: int, data: bytes) -> int:
        written = self._write(file, bytes(data[: self.room]))
        if data and not written:
            raise OSError(28, "No space left on device")
        self.room -= written
        return written


def printed(path: Path, *command: str) -> None:
    with host_output.Output(str(path)) as output:
        with output.given() as end:
            child = subprocess.Popen(command, stdout=end, stderr=end)
        child.wait(timeout=120)


def test_all_that_was_printed_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("before\n")
    script = "import sys; sys.stdout.write('line\\n' * 500_000); sys.stderr.write('no end of line')"
    printed(log, sys.executable, "-c", script)
    assert log.read_text() == "before\n" + "line\n" * 500_000 + "no end of line"


def test_a_command_that_could_not_start_leaves_an_empty_log(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    with host_output.Output(str(log)) as output, pytest.raises(FileNotFoundError), output.given() as end:
        subprocess.Popen(["/no/such/command"], stdout=end)
    assert log.read_text() == ""


def test_what_others_print_afterwards_is_not_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    with host_output.Output(str(log)) as output, output.given() as end:
        stranger = os.dup(end)
        os.write(stranger, b"in the pipe\n")
    assert log.read_text() == "in the pipe\n"
    with pytest.raises(BrokenPipeError):
        os.write(stranger, b"late\n")
    os.close(stranger)


def test_what_a_full_disk_has_no_room_for_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch, room=8)
    log = host_output.Log(str(tmp_path / "log"))
    log.append(b"one\ntwo three\n")
    log.append(b"four\n")
    disk.room = 1000
    log.append(b"five\n")
    log.append(b"six\n")
    log.close()
    notice = "sagelet: the disk was full: 11 bytes of this log are missing here\n"
    assert (tmp_path / "log").read_text() == f"one\ntwo \n{notice}five\nsix\n"


def test_a_notice_that_does_not_fit_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch, room=4)
    log = host_output.Log(str(tmp_path / "log"))
    log.append(b"one\ntwo\n")
    disk.room = 7
    log.append(b"three\n")
    disk.room = 1000
    log.append(b"four\n")
    log.close()
    notice = "sagelet: the disk was full: 10 bytes of this log are missing here\n"
    assert (tmp_path / "log").read_text() == f"one\nsagelet\n{notice}four\n"
