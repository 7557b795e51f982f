"""Counts what a call does, exactly: lines of Python that run, and bytes that are held at the same time.

No seconds: a test that fails because a machine is slow finds nothing.
"""

import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_of(call: Callable[[], Any]) -> int:
    """Returns the lines of Python that a call runs, in a thread of its own. Raises what the call raises.

    A new thread, because a tracer that another test left in this one can make Python pass over ours.
    """
    lines, raised = 0, []

    def traced(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return traced

    def counted() -> None:
        sys.settrace(traced)
        try:
            call()
        except BaseException as error:
            raised.append(error)
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=counted)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    assert lines, "Python passed over the tracer"
    return lines


def peak_of(call: Callable[[], Any], *, collected: bool = True) -> int:
    """Returns the most bytes of Python objects that a call holds at the same time, beside those that were there.

    Without `collected` garbage is collected at whatever time, so the call may hold more of its own: quick where few
    bytes are expected.
    """
    if collected:
        gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
