"""The owner of a data directory: one process at a time. It first finishes what an earlier owner began.

The lock is held on a file, `lock`, which names the owner, and on the directory itself. So a second owner cannot come in
by removing the file. If a file system cannot lock directories (NFS), only the file is locked.

The directory is kept private to its owner: it holds the key pair, jobs' secrets and objects, and the lock.
"""

import errno
import fcntl
import logging
import os
import stat
import time
from pathlib import Path

from sagelet_engine.base.errors import DataDirectoryInUse, SettingsError
from sagelet_engine.base.keys import make_private
from sagelet_engine.state.change import finish_change
from sagelet_engine.state.contents import is_data_directory, is_empty
from sagelet_engine.state.identity import Identity, establish

_log = logging.getLogger(__name__)

FILE = "lock"
_CLOSED = -1
#: Seconds between tries, and the number of tries: `owner_of` in another process holds the lock for an instant.
_PAUSE, _TRIES = 0.02, 5
#: Errors of a file system that cannot lock directories.
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class DirectoryLock:
    """Holds a data directory for this process, until `close` or the end of the process."""

    def __init__(self, data: Path, directory: int, file: int) -> None:
        self._data = data
        self._directory, self._file = directory, file
        self.identity: Identity

    def lost(self) -> str | None:
        """Returns why this process has lost the directory, for people. None while it has it."""
        if not _is_same(self._data, self._directory):
            return f"--data {self._data} was moved, removed or replaced while a server ran on it"
        if not _is_same(self._data / FILE, self._file):
            return f"{self._data / FILE} was removed while a server ran on the directory"
        return None

    def close(self) -> None:
        """Releases the lock. May be repeated."""
        for descriptor in (self._file, self._directory):
            if descriptor != _CLOSED:
                os.close(descriptor)
        self._file = self._directory = _CLOSED

    def take(self) -> None:
        """Takes the lock. Raises DataDirectoryInUse."""
        for descriptor in (self._file, self._directory):
            if not _lock_patiently(descriptor, whole=descriptor == self._file):
                raise DataDirectoryInUse(
                    f"--data {self._data}: another sagelet (process {self._owner()}) uses this directory; "
                    "stop it (`sagelet down`), or give this one another --data directory"
                )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def _owner(self) -> str:
        return os.pread(self._file, 20, 0).decode("ascii", "replace").strip() or "unknown"


def lock_directory(data: Path) -> DirectoryLock:
    """Takes the data directory for this process. The lock ends with the process.

    Raises DataDirectoryInUse, and SettingsError for a directory that cannot be made or written, or that others can
    read.
    """
    keep_private(data)
    lock = _opened(data)
    try:
        lock.take()
        lock.identity = establish(data)
        _finish(data)
    except OSError as error:
        lock.close()
        raise SettingsError(f"--data {data}: cannot be used as a directory: {error.strerror}") from error
    except BaseException:
        lock.close()
        raise
    return lock


def owner_of(data: Path) -> int | None:
    """Returns the process that owns a data directory, or None if none does or its number cannot be read."""
    try:
        with (data / FILE).open(encoding="ascii") as lock:
            if _locked(lock.fileno(), fcntl.LOCK_SH):
                return None
            return int(lock.read())
    except (OSError, ValueError):
        return None


def _opened(data: Path) -> DirectoryLock:
    try:
        directory = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
        try:
            file = os.open(data / FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except BaseException:
            os.close(directory)
            raise
        os.fchmod(file, 0o600)
    except OSError as error:
        raise SettingsError(f"--data {data}: cannot be used as a directory: {error.strerror}") from error
    return DirectoryLock(data, directory, file)


def _lock_patiently(descriptor: int, *, whole: bool) -> bool:
    """Takes a lock and retries for a moment. `whole`: a file system without such locks is an error."""
    for _ in range(_TRIES):
        try:
            if _locked(descriptor, fcntl.LOCK_EX):
                return True
        except OSError as error:
            if whole or error.errno not in _NO_LOCKS:
                raise
            return True
        time.sleep(_PAUSE)
    return False


def _locked(descriptor: int, how: int) -> bool:
    """Returns whether the lock was free. It is then held until the file is closed."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _finish(data: Path) -> None:
    try:
        for kept in finish_change(data):
            _log.warning("files that are not sagelet's were in the way of a reset or import; they are in %s", kept)
    except OSError as error:
        raise SettingsError(
            f"--data {data}: an unfinished reset or import cannot be finished: {error}. "
            "Correct that and start again: the start finishes it"
        ) from error


_OTHERS = 0o077


def keep_private(data: Path) -> None:
    """Makes a data directory, or removes the rights of others on an existing one. Raises SettingsError.

    It refuses a directory that others can read and that holds files that are not sagelet's: somebody uses that for
    something else.
    """
    make_private(data)
    mode = stat.S_IMODE(data.stat().st_mode)
    if not mode & _OTHERS:
        return
    if not is_data_directory(data) and not is_empty(data):
        raise SettingsError(
            f"--data {data}: others can read this directory, and it holds files that are not sagelet's: name another "
            f"one, or `chmod 700 {data}`"
        )
    try:
        os.chmod(data, mode & ~_OTHERS)
    except OSError as error:
        raise SettingsError(
            f"--data {data}: others can read this directory: `chmod 700 {data}` as its owner ({error.strerror})"
        ) from error
