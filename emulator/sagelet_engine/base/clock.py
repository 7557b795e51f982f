"""The clock, injected: the engine never asks the operating system for the time, so tests can set it."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC: the resolution of SageMaker's timestamps."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SteadyClock:
    """Another clock that is set back now and then, as time that never goes back.

    After such a jump it goes on from where it was at half the speed, until the other has caught up: so times stay in
    order and every time-out comes, at most after twice its time. A jump forward is time that has passed.
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
        """It was at least so late already, before this process."""
        with self._guard:
            self._now = max(self._now, now_ms)
