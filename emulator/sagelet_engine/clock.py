"""Time, injected: the engine never asks the operating system for it directly, so tests can turn it by hand."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC: the resolution of SageMaker's timestamps."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
