"""The clock, injected. The engine never asks the operating system for the time, so tests can set it."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Returns milliseconds since the epoch, UTC. This is the resolution of SageMaker's timestamps."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """A clock that never goes back, made from one that may be set back.

    After such a jump it goes on from where it was at half the speed, until the other has caught up. So times stay in
    order, and every timeout comes, at most after twice its time. A jump forward counts as time that has passed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._seen = clock.now_ms()
        self._now = float(self._seen)

    def now_ms(self) -> int:
        with self._guard:
            seen = self._clock.now_ms()
            passed, self._seen = max(0, seen - self._seen), seen
            self._now = max(seen, self._now + passed / 2)
            return int(self._now)

    def begin_at(self, now_ms: int) -> None:
        """Sets a lower limit: an earlier process has already seen this time."""
        with self._guard:
            self._now = max(self._now, now_ms)
