"""Limits how many threads compute at once: under one interpreter lock, many get less done than a few.

SQLite releases the lock at every row. Each time, all threads that wait for it come first.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ConcurrencyLimit:
    """Lets `number` threads compute at once."""

    def __init__(self, number: int) -> None:
        self._free = threading.Semaphore(number)
        self._thread = threading.local()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes one of the places while the block lasts. Code that waits for other threads must do so in `away`."""
        self._free.acquire()
        self._thread.has_one = True
        try:
            yield
        finally:
            self._thread.has_one = False
            self._free.release()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Gives the thread's place, if it has one, to others while the block waits for the disk."""
        if not getattr(self._thread, "has_one", False):
            yield
            return
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()


#: How many of a server's requests compute at once.
COMPUTING_AT_ONCE = 2
