"""What a shim on a node is asked, and by whom."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_engine.runtimes.node import host_shim
from sagelet_engine.runtimes.slurm import files as slurm_files
from sagelet_engine.runtimes.slurm import shim as slurm_shim
from sagelet_engine.runtimes.slurm.shim import Control


@pytest.fixture(autouse=True)
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As a shim has them, its signals are blocked, and its files are where it is."""
    (tmp_path / slurm_files.CONTROL).touch()
    monkeypatch.chdir(tmp_path)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, host_shim.FORWARDED)
    yield
    while signal.sigtimedwait(host_shim.FORWARDED, 0):
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def terminated() -> None:
    """As Slurm does it to every process of the task."""
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)


@pytest.mark.parametrize("code", [0, 9, 128 + signal.SIGTERM])
def test_a_command_that_ended_of_a_signal_before_its_shim_took_it(code: int) -> None:
    terminated()
    assert Control().heard(code) == {"heard": slurm_files.SIGNAL}


@pytest.mark.parametrize("code", [0, 9, 128 + signal.SIGTERM])
def test_a_command_that_ended_of_a_signal_before_its_shim_got_it(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(slurm_shim, "LATE_S", 60)
    monkeypatch.setattr(slurm_shim, "HEEDED_S", 60)
    control = Control()
    later = threading.Timer(0.05, signal.pthread_kill, (threading.get_ident(), signal.SIGTERM))
    later.start()
    assert control.heard(code) == {"heard": slurm_files.SIGNAL}
    later.join()


def test_a_command_that_ended_by_itself() -> None:
    assert Control().heard(0) == {"heard": ""}


def test_bytes_of_the_file_are_requests_in_their_order() -> None:
    Path(slurm_files.CONTROL).write_text(slurm_files.TERMINATE + slurm_files.KILL)
    control = Control()
    assert [control.next(), control.next()] == [signal.SIGTERM, host_shim.FORCE]
    assert control.heard(137) == {"heard": "TK"}


def test_a_container_is_killed_some_time_after_slurms_signal_and_a_process_is_slurms_to_kill() -> None:
    """The command has heard Slurm's signal, so it is not sent again."""
    terminated()
    container = Control(patience=0)
    assert [container.next(), container.next()] == [signal.SIGCHLD, host_shim.FORCE]
    assert container.heard(137) == {"heard": slurm_files.SIGNAL}
    terminated()
    process = Control()
    assert process.next() == signal.SIGCHLD
    Path(slurm_files.CONTROL).write_text(slurm_files.TERMINATE)
    assert process.next() == signal.SIGTERM
