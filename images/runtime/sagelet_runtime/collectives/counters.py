"""Counts what this worker's collectives cost so far. It imports nothing heavy, because the compiler report reads it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class CollectiveFigures:
    #: Collectives that ended. A call by the script counts as one, however many tensors or buckets it has.
    count: int = 0
    #: Bytes of the tensors that this worker passed in.
    bytes: int = 0
    #: From the end of this worker's own computation to the result on its device. Includes waiting for slower peers.
    seconds: float = 0.0


_lock = threading.Lock()
_figures = CollectiveFigures()


def figures() -> CollectiveFigures:
    """Returns the figures so far. All are zero in a job of one worker."""
    return _figures


def record(size: int, seconds: float) -> None:
    """Adds one collective of `size` bytes."""
    global _figures
    with _lock:
        _figures = CollectiveFigures(_figures.count + 1, _figures.bytes + size, _figures.seconds + seconds)


@contextmanager
def recording(size: int) -> Iterator[None]:
    """Records the seconds that the body takes. A collective that fails is not recorded."""
    begin = time.perf_counter()
    yield
    record(size, time.perf_counter() - begin)
