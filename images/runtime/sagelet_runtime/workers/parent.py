"""Makes a child process end with its parent."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with(parent: int) -> Callable[[], None]:
    """Returns a `preexec_fn` by which the kernel kills the child when the thread that started it ends. Linux only."""

    def prepare() -> None:
        if _LIBC is None:
            return
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # The parent has ended already.
            os._exit(128 + signal.SIGKILL)

    return prepare
