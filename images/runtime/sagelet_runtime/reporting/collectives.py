"""Reports what the workers exchanged, as counted by the module that exchanges it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from sagelet_runtime.base.wire import JsonObject

#: The module that counts. It is imported if this process is one of several workers on CPUs.
MODULE = "sagelet_runtime.collectives.counters"
#: The share of a step's gradient bytes that must go out to count as their exchange. Gradients may travel in half
#: precision. The mean of a loss has only a few bytes.
GRADIENT_SHARE = 0.5


def counted() -> Any | None:
    """Returns the figures since the process began, or None if it is not one of several workers."""
    module = sys.modules.get(MODULE)
    return None if module is None else module.figures()


class Exchanges:
    """Counts the optimizer steps with an exchange of gradients: enough bytes went out since the step before.

    Bytes before the first step do not count, because weights are sent to all workers then. Bytes after the last step
    count, because some scripts average the weights once in a while.
    """

    def __init__(self, figures: Callable[[], Any | None] = counted) -> None:
        self._figures = figures
        #: Gradient bytes of the optimizer with the smallest gradients. 0 if unknown.
        self._gradient_bytes = 0
        self._of_gradients = 0
        #: Bytes that had gone out at the last step of an optimizer, or None if no optimizer has stepped.
        self._bytes_at: int | None = None

    def seconds(self) -> float:
        """Returns the seconds in collectives so far."""
        figures = self._figures()
        return 0.0 if figures is None else float(figures.seconds)

    def size(self, gradient_bytes: int) -> None:
        """Notes the size of an optimizer's gradients, in bytes, at its first step."""
        if gradient_bytes:
            self._gradient_bytes = min(gradient_bytes, self._gradient_bytes or gradient_bytes)

    def stepped(self) -> None:
        """Notes that an optimizer stepped."""
        figures = self._figures()
        if figures is not None:
            self._of_gradients += self._exchanged(figures)
            self._bytes_at = figures.bytes

    def document(self, share: float) -> JsonObject:
        """Returns the report's figures. Empty if there are none. `share`: the collectives' share of the steps' time."""
        figures = self._figures()
        if figures is None:
            return {}
        return {
            "count": figures.count,
            "bytes": figures.bytes,
            "seconds": round(figures.seconds, 6),
            "share": round(share, 4),
            "gradient_bytes": self._gradient_bytes,
            "gradient_exchanges": self._of_gradients + self._exchanged(figures),
        }

    def _exchanged(self, figures: Any) -> bool:
        """True if enough bytes for gradients went out since the last step."""
        if self._bytes_at is None:
            return False
        sent = figures.bytes - self._bytes_at
        return bool(sent and sent >= GRADIENT_SHARE * self._gradient_bytes)
