"""Limits how many threads compute at once: under one interpreter lock, many get less done than a few.

SQLite releases the lock at every row. Each time, all threads that wait for it come first.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue


class ConcurrencyLimit:
    """Lets `number` threads compute at once."""

    def __init__(self, number: int) -> None:
        #: An item for each free place. In C: a semaphore is Python, and each request takes a place.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(number):
            self._free.put(None)
        self._thread = threading.local()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Takes one of the places while the block lasts. Code that waits for other threads must do so in `away`."""
        self._free.get()
        self._thread.has_one = True
        try:
            yield
        finally:
            self._thread.has_one = False
            self._free.put(None)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Gives the thread's place, if it has one, to others while the block waits for the disk."""
        if not getattr(self._thread, "has_one", False):
            yield
            return
        self._free.put(None)
        try:
            yield
        finally:
            self._free.get()


#: How many of a server's requests compute at once.
COMPUTING_AT_ONCE = 2
