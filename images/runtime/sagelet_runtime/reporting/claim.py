"""Decides which process writes a worker's report. A script may start others, which have the worker's variables, too."""

import errno
import fcntl
import json
import os
from pathlib import Path

from sagelet_runtime.base.wire import JsonObject

#: Errors that mean that another process has the lock.
_TAKEN = (errno.EACCES, errno.EAGAIN)


class Claim:
    """Gives the report to the first process that trains, until that process ends. Then another may take its place.

    A lock of the kernel tells which process that is. The lock ends with its process, and a fork does not inherit it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: set[str] = set()

    def forked(self) -> None:
        """Forgets the locks. Called in a new child process, which holds none."""
        self._held.clear()

    def may_write(self, name: str, document: JsonObject) -> bool:
        """True if this process may replace the report `name`.

        A process that does not train may not replace the report of one that did.
        """
        if document.get("optimizer_steps"):
            return self._hold(name)
        return not self._trained_elsewhere(name)

    def _hold(self, name: str) -> bool:
        if name in self._held:
            return True
        # The file stays open, because the lock ends when it is closed.
        opened = os.open(self._directory / f".{name}.owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(opened)
            if error.errno in _TAKEN:
                return False
            # The file system has no locks, so each process writes.
        self._held.add(name)
        return True

    def _trained_elsewhere(self, name: str) -> bool:
        try:
            found = json.loads((self._directory / name).read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(found, dict) and bool(found.get("optimizer_steps")) and found.get("pid") != os.getpid()
