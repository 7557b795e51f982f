"""Descriptors of databases that this process has open, for those who want to read bytes of the file itself.

POSIX takes all locks of a process on a file away when the process closes any descriptor of that file. SQLite's are such
locks: without them another process that closes the database removes its log under us (sqlite.org/howtocorrupt.html,
2.2). So a database that is open here is read by a descriptor that stays open until the last connection is closed.
"""

import os
import threading
from pathlib import Path

Identity = tuple[int, int]

_guard = threading.Lock()
#: By device and inode: the descriptor, and how many hold it.
_held: dict[Identity, tuple[int, int]] = {}


def hold(path: Path) -> Identity:
    """Before the first connection. Raises OSError."""
    with _guard:
        status = path.stat()
        identity = (status.st_dev, status.st_ino)
        descriptor, count = _held.get(identity, (-1, 0))
        if not count:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            opened = os.fstat(descriptor)
            identity = (opened.st_dev, opened.st_ino)
        _held[identity] = (descriptor, count + 1)
    return identity


def release(identity: Identity) -> None:
    """After the last connection."""
    with _guard:
        descriptor, count = _held[identity]
        if count > 1:
            _held[identity] = (descriptor, count - 1)
            return
        del _held[identity]
        os.close(descriptor)


def first_bytes(path: Path, count: int) -> bytes:
    """Of any file. Raises OSError."""
    with _guard:
        status = path.stat()
        held = _held.get((status.st_dev, status.st_ino))
        if held is not None:
            return os.pread(held[0], count, 0)
        with path.open("rb") as file:
            return file.read(count)
