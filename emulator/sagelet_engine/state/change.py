"""Replaces what a data directory holds. `kill -9` at any time leaves all of the old or all of the new.

The new content is made in `.incoming-ID`, beside the old. The rename to `.change` decides. Before it, the next owner of
the directory removes `.incoming-ID`. After it, the next owner finishes the change: it clears the names in it, then
moves the new content in.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from sagelet_engine.data.removal import remove_tree
from sagelet_engine.state.contents import CHANGE, EVERYTHING, clear

#: Files that are brought to the disk at once.
FLUSHERS = 16
_INCOMING = ".incoming-"
_EXPORT = ".export-"
_BUSY = "busy"
_PLAN = "plan.json"
_NEW = "new"
_CLEARED = "cleared"


@contextmanager
def workspace(data: Path, prefix: str = _EXPORT) -> Iterator[Path]:
    """Gives a directory for work on the data directory's own file system. It is removed afterwards, or by the next
    owner.
    """
    directory = data / f"{prefix}{uuid.uuid4().hex}"
    directory.mkdir(mode=0o700)
    with (directory / _BUSY).open("w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)
        try:
            yield directory
        finally:
            remove_tree(directory)


class Change:
    """A change in preparation: put the new content into `new`, then `commit`."""

    def __init__(self, data: Path, directory: Path) -> None:
        self._data = data
        self._directory = directory
        self.new = directory / _NEW
        self.new.mkdir()

    def commit(self, names: Sequence[str]) -> list[Path]:
        """Removes `names`, moves the new content in, and returns where files of others that were in the way are now.

        The caller owns the data directory. Raises OSError, DirectoryStays; then the next owner finishes the change.
        """
        (self._directory / _PLAN).write_text(json.dumps({"clear": list(names)}))
        _flush_tree(self._directory)
        self._directory.rename(self._data / CHANGE)
        _flush(self._data)
        return finish_change(self._data)


@contextmanager
def changing(data: Path) -> Iterator[Change]:
    """Prepares a change. If it is not committed, nothing of it stays."""
    with workspace(data, _INCOMING) as directory:
        yield Change(data, directory)


def finish_change(data: Path) -> list[Path]:
    """Finishes a change that was decided, if there is one. The owner of a data directory does this first.

    Returns where files of others that were in the way are now. Raises OSError, DirectoryStays.
    """
    for path in sorted(data.glob(".*")):
        if path.name.startswith((_INCOMING, _EXPORT)) and not _is_busy(path):
            remove_tree(path)
    change = data / CHANGE
    if not change.is_dir():
        return []
    kept = []
    if not (change / _CLEARED).exists():
        plan = json.loads((change / _PLAN).read_text())
        kept = [left for name in EVERYTHING if name in plan["clear"] and (left := clear(data, name))]
        (change / _CLEARED).touch()
        _flush(change)
    for path in sorted((change / _NEW).iterdir()):
        path.rename(data / path.name)
    _flush(data)
    # It vanishes in one step, because half of a change could not be finished.
    over = data / f"{_INCOMING}{uuid.uuid4().hex}"
    change.rename(over)
    remove_tree(over)
    return kept


def _is_busy(directory: Path) -> bool:
    """True if a process still works in the directory."""
    try:
        with (directory / _BUSY).open("w") as busy:
            fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _flush_tree(directory: Path) -> None:
    """Brings a tree to the disk, several files at once: then the file system writes its journal once for many."""
    with ThreadPoolExecutor(FLUSHERS) as pool:
        for _ in pool.map(_flush, _entries(directory)):
            pass


def _entries(directory: Path) -> Iterator[Path]:
    for root, _, names in os.walk(directory):
        yield Path(root)
        yield from (path for name in names if not (path := Path(root, name)).is_symlink())


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
