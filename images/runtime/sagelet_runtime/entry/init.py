"""Process 1 of a container: adopts and reaps orphans, and forwards SIGTERM to the one child that does the work."""

from __future__ import annotations

import os
import signal
from types import FrameType

_FORWARDED = (signal.SIGTERM, signal.SIGINT)


def is_init() -> bool:
    return os.getpid() == 1


def become_child_of_init() -> None:
    """Returns in a child process. The caller's own process stays as its init and ends with the child's exit code.

    Call it before threads exist. The kernel drops signals for which process 1 has no handler, and makes process 1 the
    parent of every orphan. A process that waits for its own children must not reap other processes.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if child != 0:
        os._exit(_serve(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _serve(child: int) -> int:
    def forward(signum: int, _frame: FrameType | None) -> None:
        try:
            os.kill(child, signum)
        except ProcessLookupError:
            os.write(2, b"sagelet: stop requested after the job's process ended\n")

    for signum in _FORWARDED:
        signal.signal(signum, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    return _reap_until(child)


def _reap_until(child: int) -> int:
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
