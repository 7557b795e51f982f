"""What the workers exchanged, as the module that exchanges it has counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

#: Where this process has joined a world of several workers on CPUs.
MODULE = "sagelet_runtime.world.counters"
#: Of the bytes of a step's gradients: they may travel in half of their precision; the mean of a loss has a few bytes.
GRADIENT_SHARE = 0.5


def counted() -> Any | None:
    """Figures since the process began; None: it has joined no world."""
    module = sys.modules.get(MODULE)
    return None if module is None else module.figures()


class Exchanges:
    """Counts the optimizer steps that gradients were exchanged for: since the step before, enough bytes went out.

    What went out before the first step does not count: weights are sent to all workers then. What came after the last
    one does: there are scripts that average the weights once in a while.
    """

    def __init__(self, figures: Callable[[], Any | None] = counted) -> None:
        self._figures = figures
        #: Of the optimizer with the smallest gradients; 0: not known.
        self._gradient_bytes = 0
        self._of_gradients = 0
        #: Bytes that had gone out when an optimizer stepped last; None: none has.
        self._bytes_at: int | None = None

    def seconds(self) -> float:
        """In collectives, so far."""
        figures = self._figures()
        return 0.0 if figures is None else float(figures.seconds)

    def size(self, gradient_bytes: int) -> None:
        """`gradient_bytes`: of an optimizer's parameters when it first stepped."""
        if gradient_bytes:
            self._gradient_bytes = min(gradient_bytes, self._gradient_bytes or gradient_bytes)

    def stepped(self) -> None:
        """An optimizer did."""
        figures = self._figures()
        if figures is not None:
            self._of_gradients += self._exchanged(figures)
            self._bytes_at = figures.bytes

    def document(self, share: float) -> dict[str, Any]:
        """`share`: of the steps' time."""
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
        """Whether enough for gradients went out since the last step."""
        if self._bytes_at is None:
            return False
        sent = figures.bytes - self._bytes_at
        return bool(sent and sent >= GRADIENT_SHARE * self._gradient_bytes)
