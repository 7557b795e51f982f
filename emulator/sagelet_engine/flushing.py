"""Commits of several threads made durable with one flush of the disk."""

import os
import threading
from pathlib import Path

from sagelet_engine.turns import TURNS


class Flusher:
    """Flushes a file that other file descriptors write to. Thread-safe.

    A flush takes milliseconds, in which other threads write: the next one is for all of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counting = threading.Lock()
        self._asked = 0
        self._flushing = threading.Lock()
        #: Everybody who asked so far, or before, has what he wrote on the disk.
        self._flushed = 0

    def flush(self) -> None:
        """Returns when what this thread wrote is on the disk. Raises OSError."""
        with self._counting:
            self._asked += 1
            mine = self._asked
        with TURNS.away(), self._flushing:
            if self._flushed >= mine:
                return
            with self._counting:
                everybody = self._asked
            self._sync()
            self._flushed = everybody

    def _sync(self) -> None:
        # Opened anew: the file may have been replaced.
        file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(file)
        finally:
            os.close(file)
