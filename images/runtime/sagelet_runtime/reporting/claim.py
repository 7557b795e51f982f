"""Whose report a file is, where several processes have the variables of one worker: its script may start others."""

import errno
import fcntl
import json
import os
from pathlib import Path
from typing import Any

#: Another process has the lock.
_TAKEN = (errno.EACCES, errno.EAGAIN)


class Claim:
    """The report is that of the first process that trains, until that one ends; then another may take its place.

    A lock of the kernel's says who it is: it goes with its process, however that ends, and a fork does not inherit it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: set[str] = set()

    def forked(self) -> None:
        """In a new child process, which holds nothing."""
        self._held.clear()

    def may_write(self, name: str, document: dict[str, Any]) -> bool:
        """Whether this process may replace the report `name`. One that does not train gives way to one that did."""
        if document.get("optimizer_steps"):
            return self._hold(name)
        return not self._trained_elsewhere(name)

    def _hold(self, name: str) -> bool:
        if name in self._held:
            return True
        # Kept open: the lock ends with the file.
        opened = os.open(self._directory / f".{name}.owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(opened)
            if error.errno in _TAKEN:
                return False
            # A file system without locks: then each process writes.
        self._held.add(name)
        return True

    def _trained_elsewhere(self, name: str) -> bool:
        try:
            found = json.loads((self._directory / name).read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(found, dict) and bool(found.get("optimizer_steps")) and found.get("pid") != os.getpid()
