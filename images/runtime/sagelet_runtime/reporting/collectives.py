"""What the workers exchanged, as the module that exchanges it has counted."""

import sys
import time
from typing import Any

from sagelet_runtime.reporting.steps import Steps

#: Where this process has joined a world of several workers on CPUs.
MODULE = "sagelet_runtime.world.counters"


def document(steps: Steps) -> dict[str, Any]:
    """`share`: of the time since the first step's end; 0 before it."""
    module = sys.modules.get(MODULE)
    if module is None:
        return {}
    figures = module.figures()
    elapsed = time.perf_counter() - steps.first_ended if steps.steps else 0.0
    return {
        "count": figures.count,
        "bytes": figures.bytes,
        "seconds": round(figures.seconds, 6),
        "share": round(min(1.0, figures.seconds / elapsed), 4) if elapsed else 0.0,
    }
