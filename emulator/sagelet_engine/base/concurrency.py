"""Limits how many threads compute at once: under one interpreter lock, many get less done than a few.

SQLite releases the lock at every row. Each time, all threads that wait for it come first.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ConcurrencyLimit:
    """`number` threads at once."""

    def __init__(self, number: int) -> None:
        self._free = threading.Semaphore(number)
        self._thread = threading.local()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Not for what waits for somebody else, other than in `away`."""
        self._free.acquire()
        self._thread.has_one = True
        try:
            yield
        finally:
            self._thread.has_one = False
            self._free.release()

    @contextmanager
    def away(self) -> Iterator[None]:
        """The thread waits for the disk: its turn, if it has one, is another's meanwhile."""
        if not getattr(self._thread, "has_one", False):
            yield
            return
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()


#: The limit of this process.
TURNS = ConcurrencyLimit(2)
