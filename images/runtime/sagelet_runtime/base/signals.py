"""Forwards SIGTERM to the user script. The script's exit decides how the job ends.

AWS's toolkit ignores SIGTERM as process 1. Elsewhere it dies of SIGTERM and leaves the script running.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from types import FrameType

from sagelet_runtime.base.processes import stop_targets, table

#: What a shell reports for a process that SIGTERM ended.
STOPPED_EARLY = 128 + signal.SIGTERM

_stopped = False


def install() -> None:
    """Forwards every SIGTERM of this process to the user's processes below it."""
    owner = os.getpid()

    def forward(signum: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:
            return  # This is a fork that runs the toolkit's own uploads. It ends with its parent.
        _stop(owner, signum)

    signal.signal(signal.SIGTERM, forward)


def stop_requested() -> bool:
    return _stopped


def exit_if_stopped() -> None:
    """Ends this process if a stop was requested. Called right before the user script starts."""
    if _stopped:
        _exit_early()


def _stop(owner: int, signum: int) -> None:
    global _stopped
    _stopped = True
    helpers = frozenset(child.pid for child in multiprocessing.active_children() if child.pid is not None)
    targets = stop_targets(table(), owner, helpers)
    if not targets:
        _exit_early()
    _say(f"stop requested, SIGTERM goes to {len(targets)} process(es) of the job")
    for pid in targets:
        _send(pid, signum)


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return  # The process has ended meanwhile.
    except PermissionError as error:
        _say(f"process {pid} did not get the stop request: {error}")


def _exit_early() -> None:
    """Exits without exit handlers, because the toolkit's would report success."""
    _say("stop requested before the user script ran")
    os._exit(STOPPED_EARLY)


def _say(text: str) -> None:
    """Writes to file descriptor 1. A signal may interrupt a write of sys.stdout, which is not reentrant."""
    os.write(1, f"sagelet: {text}\n".encode())
