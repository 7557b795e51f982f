"""The longest time in which a process used no CPU and ended no step, and where its main thread was: where it hung.

A thread of its own looks every ten seconds, in each Python process of a job, compiled or not. No signal is sent, and
nothing is asked of the thread that hangs. Every Python of the job imports this file at start, so it imports the rest
late.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
from typing import TYPE_CHECKING

from sagelet_runtime.reporting import ran

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from sagelet_runtime.base.wire import JsonObject

DIRECTORY = "SAGELET_REPORT_DIR"
#: Seconds between two looks, and the share of a CPU below which the process was idle between them. A process that
#: wanted a CPU and had none was not idle.
EVERY, IDLE = 10.0, 0.05
#: Seconds of the shortest stretch that is written.
LEAST = 30.0
#: The innermost calls that are named, and characters of one.
MOST, LONGEST = 12, 200


class Idling:
    def __init__(self) -> None:
        self.started_ms = time.time_ns() // 1_000_000
        #: Steps that have ended so far. None in a process that does not train.
        self.steps: Callable[[], int] | None = None
        # What a young process has waited for a CPU is not worth the imports that reading it needs.
        self._at, self._used, self._stepped = time.monotonic(), time.process_time(), 0
        #: When the present stretch began, by time.monotonic. None if the process works.
        self._since: float | None = None
        self._longest: JsonObject = {}

    def look(self) -> bool:
        """Takes in the time since the last look. True if the longest stretch has changed."""
        now, used, stepped = time.monotonic(), _used(), self.steps() if self.steps else 0
        idle = used - self._used < IDLE * (now - self._at) and stepped == self._stepped
        if not idle:
            self._since = None
        elif self._since is None:
            self._since = self._at
        self._at, self._used, self._stepped = now, used, stepped
        seconds = 0.0 if self._since is None else now - self._since
        if seconds < LEAST or seconds <= self._longest.get("seconds", 0.0):
            return False
        calls = stack(sys._current_frames().get(_main_thread()))
        self._longest = {"seconds": round(seconds, 3), "end_ms": time.time_ns() // 1_000_000, "stack": calls}
        return True

    def document(self) -> JsonObject:
        """Returns the longest stretch and the calls, innermost first, that the main thread was in at its end."""
        return {
            "rank": _rank(),
            "pid": os.getpid(),
            "started_ms": self.started_ms,
            "trains": self.steps is not None,
            **self._longest,
        }


class _Watch:
    """Of this process: a fork has none until it trains."""

    idling: Idling | None = None


def watch() -> None:
    """Begins to look. Does nothing if it has begun, or if SAGELET_REPORT_DIR is not set."""
    if _Watch.idling is not None or not os.environ.get(DIRECTORY):
        return
    _Watch.idling = Idling()
    ran.record(os.environ[DIRECTORY])
    _thread.start_new_thread(_looks, (_Watch.idling, os.environ[DIRECTORY]))


def trains(steps: Callable[[], int]) -> None:
    """Says that this process trains. `steps` returns the number of steps that have ended so far."""
    watch()
    if _Watch.idling is not None:
        _Watch.idling.steps = steps


def _forget() -> None:
    _Watch.idling = None


os.register_at_fork(after_in_child=_forget)


def _looks(idling: Idling, directory: str) -> None:
    while True:
        time.sleep(EVERY)
        try:
            if idling.look() and ran.is_of_the_script():
                _write(directory, idling.document())
            ran.write_if_changed()
        except Exception as error:
            from sagelet_runtime.base.say import say_once

            say_once(f"where the script waits is not known: {error!r}")
            return


def _write(directory: str, document: JsonObject) -> None:
    """Writes `idle-PID.json`, always as a whole, so readers never see half of it."""
    import json

    name = f"idle-{document['pid']}.json"
    draft = os.path.join(directory, f".{name}")
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.replace(draft, os.path.join(directory, name))


def _used() -> float:
    """Returns the seconds for which this process has had a CPU or waited for one."""
    from sagelet_runtime.reporting.crowding import cpu_times

    waited: float = cpu_times()["cpu_wait_seconds"]
    return time.process_time() + waited


def _rank() -> int:
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() and rank.isascii() else 0


def _main_thread() -> int:
    import threading

    return threading.main_thread().ident or 0


def stack(frame: FrameType | None) -> list[str]:
    """Returns `train.py:12 in main` for the innermost calls."""
    from sagelet_runtime.reporting.places import shown

    calls: list[str] = []
    while frame is not None and len(calls) < MOST:
        code = frame.f_code
        calls.append(f"{shown(code.co_filename)}:{frame.f_lineno} in {code.co_name}"[-LONGEST:])
        frame = frame.f_back
    return calls
