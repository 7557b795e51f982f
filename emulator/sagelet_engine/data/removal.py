"""Removes a job's directory, whatever its script left in it."""

import os
import stat
from pathlib import Path

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.sanitizing import shown
from sagelet_engine.base.volume import measured
from sagelet_engine.model.job import Job


class DirectoryStays(SageletError):
    """Something in a job's directory cannot be deleted. The message names it."""


def remove_job(data: Path, job: Job) -> None:
    """Deletes all that the job has below the data directory. May be repeated. Raises DirectoryStays."""
    remove_tree(data / "jobs" / job.key.account / job.key.region / job.id)


def remove(path: Path) -> None:
    """Deletes a directory or anything else at this path. Raises DirectoryStays."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
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
    return own.st_blocks * 512 + (measured(path).bytes if stat.S_ISDIR(own.st_mode) else 0)


def remove_tree(root: Path) -> None:
    """Deletes a directory if it exists, even one without the right to write. Raises DirectoryStays."""
    if not root.is_dir() or root.is_symlink():
        return
    try:
        _empty(root)
        root.rmdir()
    except OSError as error:
        what = shown(error.filename) if isinstance(error.filename, str) else root
        raise DirectoryStays(
            f"{what} cannot be deleted ({error.strerror}); delete {root} as its owner and repeat"
        ) from error


def _empty(root: Path) -> None:
    """Deletes all that is in a directory. No link is followed.

    A script may nest directories deeper than any path or recursive function can reach. So each directory is moved up to
    the top, emptied there, and removed.
    """
    top = _opened(str(root), None)
    try:
        waiting, number = _emptied(top), 0
        taken = set(waiting)
        while waiting:
            name = waiting.pop()
            opened = _opened(name, top)
            try:
                for below in _emptied(opened):
                    while (up := f"removed-{number}") in taken:
                        number += 1
                    number += 1
                    _unlock(below, opened)
                    os.rename(below, up, src_dir_fd=opened, dst_dir_fd=top)
                    waiting.append(up)
            finally:
                os.close(opened)
            os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _emptied(directory: int) -> list[str]:
    """Deletes everything that is not a directory, and returns the names of the directories."""
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
    return [name for name, is_directory in found if is_directory]


def _opened(name: str, within: int | None) -> int:
    _unlock(name, within)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)


def _unlock(name: str, within: int | None) -> None:
    """Gives the owner all rights to a directory, because deleting or moving its entries writes to it."""
    mode = os.stat(name, dir_fd=within, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=within)
