"""What this worker's collectives cost so far. Imports nothing heavy: the compiler report reads it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class CollectiveFigures:
    #: Collectives that ended: one call of the script's, however many tensors or buckets it had.
    count: int = 0
    #: Bytes of the tensors that this worker handed in.
    bytes: int = 0
    #: Between the end of this worker's own computation and the result on its device. Includes waiting for slower peers.
    seconds: float = 0.0


_lock = threading.Lock()
_figures = CollectiveFigures()


def figures() -> CollectiveFigures:
    """As of now; all zero in a job of one worker."""
    return _figures


def record(size: int, seconds: float) -> None:
    """`size`: bytes of one collective."""
    global _figures
    with _lock:
        _figures = CollectiveFigures(_figures.count + 1, _figures.bytes + size, _figures.seconds + seconds)


@contextmanager
def recording(size: int) -> Iterator[None]:
    """Notes what the body took. A collective that failed is not noted."""
    begin = time.perf_counter()
    yield
    record(size, time.perf_counter() - begin)
