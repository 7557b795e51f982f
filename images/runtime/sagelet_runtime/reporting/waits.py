"""What the script waited for: seconds in calls that returned only once the device was done, by the script's line."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.reporting.device_clock import WaitClock
from sagelet_runtime.reporting.places import Places

if TYPE_CHECKING:
    from sagelet_runtime.reporting.intervals import Intervals

#: Seconds of the shortest wait within a call that also traces and compiles. Telling it from the rest costs 0.1 ms.
LEAST = 0.001


#: What the report calls waits in functions of torch that read within: `copy_`, `nonzero`, `torch.equal`. How many these
#: were is not known.
OTHER = "other reads"


class DeviceWaits:
    """Adds up. Time of compiling within a call is not waiting."""

    def __init__(
        self,
        intervals: Intervals,
        compile_seconds: Callable[[], float],
        reading_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`reading_seconds`: of copies from the device so far. To ask costs more than a step may."""
        self._clock = intervals.clock
        self._compile_seconds, self._reading_seconds = compile_seconds, reading_seconds
        #: In calls that are noted by their place.
        self.seconds = 0.0
        self.places = Places()
        #: Of these, in calls that read values, and those in all other reads.
        self._reading = self._others = 0.0

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

    def read(self, call: str, frame: FrameType | None, seconds: float) -> None:
        """Notes a call that read values, for which the device had to be done."""
        self._reading += seconds
        self.add(call, frame, seconds, to_the_end=True)

    def others(self) -> float:
        """Returns the seconds so far, at least, of reads that no call here has noted: torch reads within a function.

        torch_xla times each copy from the device. A call that reads takes at least as long as its copies.
        """
        rest = self._reading_seconds() - self._reading
        if rest - self._others >= LEAST:
            self._others = rest
        return self._others

    def all_seconds(self) -> float:
        return self.seconds + self.others()

    def listed(self) -> list[JsonObject]:
        """Returns the calls by place, JSON-ready, the largest count first, and what is known of the others."""
        seconds = round(self.others(), 6)
        other = {"call": OTHER, "file": "", "line": 0, "function": "", "via": "", "count": 0, "seconds": seconds}
        return [*self.places.listed(), *([other] if seconds else [])]
