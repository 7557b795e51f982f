"""Who owns a data directory: one process at a time, which first finishes what an earlier one began."""

import fcntl
import logging
import os
import time
from pathlib import Path
from typing import TextIO

from sagelet_engine.errors import DataDirectoryInUse, SettingsError
from sagelet_engine.keys import make_private
from sagelet_engine.state.change import finish_change

_log = logging.getLogger(__name__)

#: Seconds between tries, and how many there are: `owner_of` in another process holds the lock for an instant.
_PAUSE, _TRIES = 0.02, 5


def lock_directory(data: Path) -> TextIO:
    """Takes the data directory for this process; the lock ends with the process, however it ends.

    Raises DataDirectoryInUse, and SettingsError for a directory that cannot be made or written.
    """
    make_private(data)
    try:
        lock = (data / "lock").open("a+", encoding="ascii")
    except OSError as error:
        raise SettingsError(f"--data {data}: cannot be used as a directory: {error.strerror}") from error
    try:
        _take(data, lock)
        _finish(data)
    except BaseException:
        lock.close()
        raise
    return lock


def owner_of(data: Path) -> int | None:
    """The process that owns a data directory; None when none does, or its number cannot be read."""
    try:
        with (data / "lock").open(encoding="ascii") as lock:
            if _locked(lock, fcntl.LOCK_SH):
                return None
            return int(lock.read())
    except (OSError, ValueError):
        return None


def _take(data: Path, lock: TextIO) -> None:
    for _ in range(_TRIES):
        if _locked(lock, fcntl.LOCK_EX):
            break
        time.sleep(_PAUSE)
    else:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        raise DataDirectoryInUse(
            f"--data {data}: another sagelet (process {owner}) uses this directory; "
            "stop it (`sagelet down`), or give this one another --data directory"
        )
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _locked(lock: TextIO, how: int) -> bool:
    """Whether the lock was free; it is then held until the file is closed."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _finish(data: Path) -> None:
    try:
        for kept in finish_change(data):
            _log.warning("files that are not sagelet's were in the way of a reset or import; they are in %s", kept)
    except OSError as error:
        raise SettingsError(
            f"--data {data}: a reset or import that was begun cannot be finished: {error}. "
            "Mend that, and start again: it goes on from there"
        ) from error
