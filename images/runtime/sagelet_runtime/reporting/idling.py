"""Where the script is while its process uses no CPU: what it waits for, if it hangs."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.reporting.places import shown

#: Seconds that are looked at together, and the share of a CPU below which the process was idle in them. sagelet's own
#: thread takes less.
EVERY, IDLE = 10.0, 0.05
#: The innermost calls that are named, and characters of one.
MOST, LONGEST = 12, 200


class Idling:
    """Looked at by a thread of its own. No signal is sent, and nothing is asked of the thread that hangs."""

    def __init__(self) -> None:
        self._began, self._cpu = time.monotonic(), time.process_time()
        self._stack: list[str] = []

    def look(self) -> None:
        now, cpu = time.monotonic(), time.process_time()
        if now - self._began < EVERY:
            return
        idle = cpu - self._cpu < IDLE * (now - self._began)
        self._began, self._cpu = now, cpu
        self._stack = stack(sys._current_frames().get(threading.main_thread().ident or 0)) if idle else []

    def document(self) -> JsonObject:
        """Returns the calls that the main thread is in, the innermost first. None if the process works."""
        return {"idle_stack": self._stack}


def stack(frame: FrameType | None) -> list[str]:
    """Returns `train.py:12 in main` for the innermost calls."""
    calls: list[str] = []
    while frame is not None and len(calls) < MOST:
        code = frame.f_code
        calls.append(f"{shown(code.co_filename)}:{frame.f_lineno} in {code.co_name}"[-LONGEST:])
        frame = frame.f_back
    return calls
