"""SIGTERM on its way to the user script. AWS's toolkit drops it as process 1 and dies of it elsewhere, the script
left running; here the script gets it, and its exit decides how the job ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from types import FrameType

from sagelet_runtime.processes import stop_targets, table

#: What a shell reports for a process that SIGTERM ended.
STOPPED_EARLY = 128 + signal.SIGTERM

_stopped = False


def install() -> None:
    """Forwards every SIGTERM of this process to the processes below it that are the user's."""
    owner = os.getpid()

    def forward(signum: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:
            return  # a fork that runs the toolkit's own uploads: it ends with its parent
        _stop(owner, signum)

    signal.signal(signal.SIGTERM, forward)


def stop_requested() -> bool:
    return _stopped


def exit_if_stopped() -> None:
    """Ends this process if a stop was asked for: called right before the user script would start."""
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
        return  # it ended meanwhile
    except PermissionError as error:
        _say(f"process {pid} could not be told to stop: {error}")


def _exit_early() -> None:
    """No exit handlers: the toolkit's would report success."""
    _say("stop requested before the user script ran")
    os._exit(STOPPED_EARLY)


def _say(text: str) -> None:
    """Past sys.stdout: a signal may come in the middle of one of its writes, and it cannot be entered twice."""
    os.write(1, f"sagelet: {text}\n".encode())
