"""Who owns a data directory: one process at a time, which first finishes what an earlier one began."""

import fcntl
import logging
import os
from pathlib import Path
from typing import TextIO

from sagelet_engine.errors import DataDirectoryInUse, SettingsError
from sagelet_engine.keys import make_private
from sagelet_engine.state.change import finish_change

_log = logging.getLogger(__name__)


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


def _take(data: Path, lock: TextIO) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        raise DataDirectoryInUse(
            f"--data {data}: another sagelet (process {owner}) uses this directory; "
            "stop it, or give this one another --data directory"
        ) from error
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _finish(data: Path) -> None:
    try:
        for kept in finish_change(data):
            _log.warning("files that are not sagelet's were in the way of a reset or import; they are in %s", kept)
    except OSError as error:
        raise SettingsError(
            f"--data {data}: a reset or import that was begun cannot be finished: {error}. "
            "Mend that, and start again: it goes on from there"
        ) from error
