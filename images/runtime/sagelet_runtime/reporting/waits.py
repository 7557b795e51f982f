"""What the script waited for: seconds in calls that returned only once the device was done, by the script's line."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from sagelet_runtime.reporting.device_clock import WaitClock
from sagelet_runtime.reporting.places import Places

if TYPE_CHECKING:
    from sagelet_runtime.reporting.intervals import Intervals

#: Seconds of the shortest wait within a call that also traces and compiles. Telling it from the rest costs 0.1 ms.
LEAST = 0.001


class DeviceWaits:
    """Adds up. Time of compiling within a call is not waiting."""

    def __init__(self, intervals: Intervals, compile_seconds: Callable[[], float]) -> None:
        self._clock = intervals.clock
        self._compile_seconds = compile_seconds
        self.seconds = 0.0
        self.places = Places()

    def begin(self) -> tuple[float, float]:
        """Returns what `spent` needs of the start of a call."""
        return time.perf_counter(), self._compile_seconds()

    def spent(self, began: tuple[float, float]) -> float:
        """Returns the seconds since `begin` in which nothing was compiled."""
        return max(0.0, time.perf_counter() - began[0] - (self._compile_seconds() - began[1]))

    def add(self, call: str, frame: FrameType | None, seconds: float, *, to_the_end: bool) -> None:
        """Notes a wait. `to_the_end`: the device was done with all that the script had dispatched."""
        if to_the_end and isinstance(self._clock, WaitClock):
            self._clock.waited()
        self.seconds += seconds
        self.places.add(call, frame, seconds)
