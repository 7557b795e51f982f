"""Removes a job's directory, whatever its script left in it."""

import errno
import os
import re
import stat
import threading
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from sagelet_engine.base import volume
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.sanitizing import shown

#: Below the data directory: what nobody needs any more.
REMOVED = "removed"
#: The names that it gets there. Anything else in REMOVED is a user's, and stays.
_NAME = re.compile("[0-9a-f]{32}")


class DirectoryStays(SageletError):
    """Something in a job's directory cannot be deleted. The message names it."""


class Cleared(NamedTuple):
    """What was deleted for good."""

    directories: int
    #: On the disk, as `du` counts.
    bytes: int
    #: Why something could not be deleted, for people.
    stays: tuple[str, ...]


def _never() -> bool:
    return False


class Leftovers:
    """What nobody needs any more, until it is deleted. Thread-safe.

    To move a directory takes one step, however many files are in it. Deleting them takes seconds, and is for a thread
    for which nobody waits. A server that is killed in between finds them in REMOVED.
    """

    def __init__(self, data: Path, closing: Callable[[], bool] = _never) -> None:
        """`closing`: true when nothing more is to be deleted."""
        self._root = data / REMOVED
        self._closing = closing
        self._guard = threading.Lock()
        #: Held while something is deleted. A caller that counts what goes holds it from its `take` to its `clear`.
        self.clearing = threading.RLock()
        #: Bytes of entries where they are known.
        self._sizes: dict[str, int] = {}
        #: Bytes of what was deleted without being here.
        self._at_once: list[int] = []
        #: Set when something was moved here.
        self.came = threading.Event()

    def take(self, paths: Iterable[Path], size: int | None = None) -> None:
        """Moves what is at these paths here. `size`: the bytes of all, if known. Raises DirectoryStays.

        What cannot be moved is deleted at once: the disk is full, or it is another one.
        """
        try:
            with self._guard:
                for path in paths:
                    if not os.path.lexists(path):
                        continue
                    name = _moved(path, self._root)
                    if size is not None and name:
                        self._sizes[name] = size
                    elif size:
                        self._at_once.append(size)
                    size = None if size is None else 0
        finally:
            self.came.set()

    def sizes(self) -> dict[Path, int]:
        """Returns what is here, with its bytes on the disk. Walks what was not measured. Raises DirectoryStays.

        Another thread may delete it meanwhile.
        """
        known = ((path, self._sizes.get(path.name)) for path in self._entries())
        return {path: bytes_below(path) if size is None else size for path, size in known}

    def _entries(self) -> list[Path]:
        try:
            with self._guard:
                if self._root.is_symlink() or not self._root.is_dir():
                    return []
                return sorted(path for path in self._root.iterdir() if _NAME.fullmatch(path.name))
        except OSError as error:
            raise DirectoryStays(f"{self._root} cannot be read ({error.strerror}): what is in it stays") from error

    def clear(self, *, measured: bool = True) -> Cleared:
        """Deletes what is here. Counts nothing unless `measured`: that walks all files once more."""
        stays: list[str] = []
        with self.clearing:
            at_once, self._at_once = self._at_once, []
            directories, size = len(at_once), sum(at_once)
            try:
                entries = self.sizes() if measured else dict.fromkeys(self._entries(), 0)
            except DirectoryStays as error:
                entries, stays = {}, [str(error)]
            for path, here in entries.items():
                if self._closing():
                    break
                try:
                    remove(path, self._closing)
                except DirectoryStays as error:
                    if self._closing():
                        break
                    stays.append(str(error))
                    continue
                self._sizes.pop(path.name, None)
                directories += here > 0
                size += here
        return Cleared(directories, size, tuple(stays))


def _moved(path: Path, root: Path) -> str:
    """Moves a file or a directory. Returns its new name, or nothing if it was deleted. Raises DirectoryStays."""
    name = uuid.uuid4().hex
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        if root.is_symlink():
            raise OSError(f"{root} is a link, which may lead to what is not sagelet's")
        # A directory that moves needs the right to write to itself.
        unlock(str(path))
        path.rename(root / name)
    except OSError:
        remove(path)
        return ""
    return name


def remove(path: Path, ends: Callable[[], bool] = _never) -> None:
    """Deletes a directory or anything else at this path. Raises DirectoryStays, also as soon as `ends` is true."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path, ends)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DirectoryStays(f"{path} cannot be deleted ({error.strerror}); delete it as its owner") from error


def remove_empty(path: Path) -> None:
    """Deletes a directory if it exists and is empty."""
    if path.is_dir() and not any(path.iterdir()):
        remove(path)


def bytes_below(path: Path) -> int:
    """Returns the bytes that a file or a directory takes on the disk, as `du` counts them. Vanished files count 0."""
    try:
        own = path.lstat()
    except OSError:
        return 0
    return own.st_blocks * 512 + (volume.measured(path).bytes if stat.S_ISDIR(own.st_mode) else 0)


def remove_tree(root: Path, ends: Callable[[], bool] = _never) -> None:
    """Deletes a directory if it exists, even one without the right to write. Raises DirectoryStays."""
    if not root.is_dir() or root.is_symlink():
        return
    try:
        _empty(root, ends)
        root.rmdir()
    except OSError as error:
        what = shown(error.filename) if isinstance(error.filename, str) else root
        raise DirectoryStays(
            f"{what} cannot be deleted ({error.strerror}); delete {root} as its owner and repeat"
        ) from error


def _empty(root: Path, ends: Callable[[], bool]) -> None:
    """Deletes all that is in a directory. No link is followed.

    A script may nest directories deeper than any path or recursive function can reach. So each directory is moved up to
    the top, emptied there, and removed.
    """
    top = _opened(str(root), None)
    try:
        waiting, number = _emptied(top, ends), 0
        taken = set(waiting)
        while waiting:
            name = waiting.pop()
            opened = _opened(name, top)
            try:
                for below in _emptied(opened, ends):
                    while (up := f"removed-{number}") in taken:
                        number += 1
                    number += 1
                    unlock(below, opened)
                    os.rename(below, up, src_dir_fd=opened, dst_dir_fd=top)
                    waiting.append(up)
            finally:
                os.close(opened)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _emptied(directory: int, ends: Callable[[], bool]) -> list[str]:
    """Deletes everything that is not a directory, and returns the names of the directories."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if ends():
            raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))
        if not is_directory:
            os.unlink(name, dir_fd=directory)
    return [name for name, is_directory in found if is_directory]


def _opened(name: str, within: int | None) -> int:
    unlock(name, within)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)


def unlock(name: str, within: int | None = None) -> None:
    """Gives the owner all rights to a directory, because deleting or moving its entries writes to it."""
    mode = os.stat(name, dir_fd=within, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=within)
