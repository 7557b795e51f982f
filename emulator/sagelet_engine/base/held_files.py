"""Holds a descriptor of each open database, for code that wants to read bytes of the file itself.

When a process closes any descriptor of a file, POSIX drops all locks of that process on the file. SQLite's locks are
such locks: without them another process that closes the database removes its log under us
(sqlite.org/howtocorrupt.html, 2.2). So an open database is read through a descriptor that stays open until the last
connection is closed.

`is_locked` tells whether a living process holds a lock on a file. The kernel frees locks, whatever ends the process.
"""

import errno
import fcntl
import os
import threading
from pathlib import Path


def is_locked(path: str | Path) -> bool:
    """True if some process holds this lock. A missing file or a link is not locked."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


Identity = tuple[int, int]

_guard = threading.Lock()
#: The descriptor and its number of holders, by device and inode.
_held: dict[Identity, tuple[int, int]] = {}


def hold(path: Path) -> Identity:
    """Opens and holds a descriptor. Called before the first connection. Raises OSError."""
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
    """Releases a descriptor. Called after the last connection is closed."""
    with _guard:
        descriptor, count = _held[identity]
        if count > 1:
            _held[identity] = (descriptor, count - 1)
            return
        del _held[identity]
        os.close(descriptor)


def first_bytes(path: Path, count: int) -> bytes:
    """Returns the first bytes of any file. Raises OSError."""
    with _guard:
        status = path.stat()
        held = _held.get((status.st_dev, status.st_ino))
        if held is not None:
            return os.pread(held[0], count, 0)
        with path.open("rb") as file:
            return file.read(count)
