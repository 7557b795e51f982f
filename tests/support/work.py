"""Counts what a call does, exactly: lines of Python that run, and bytes that are held at the same time.

No seconds: a test that fails because a machine is slow finds nothing.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_of(call: Callable[[], Any]) -> int:
    """Returns the lines of Python that a call runs in this thread."""
    lines = 0

    def traced(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def peak_of(call: Callable[[], Any]) -> int:
    """Returns the most bytes of Python objects that a call holds at the same time, beside those that were there."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
