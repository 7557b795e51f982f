"""Taking a job's directory away, whatever its script left there."""

import os
import shutil
import stat
from pathlib import Path

from sagelet_engine.errors import SageletError
from sagelet_engine.jobs.record import TrainingJob


class DirectoryStays(SageletError):
    """Something in a job's directory cannot be deleted; the message names it."""


def remove_job(data: Path, job: TrainingJob) -> None:
    """Deletes all that the job has below the data directory. May be repeated. Raises DirectoryStays."""
    remove_tree(data / "jobs" / job.key.account / job.key.region / job.id)


def remove(path: Path) -> None:
    """Deletes a directory or whatever else is there. Raises DirectoryStays."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DirectoryStays(f"{path} cannot be deleted ({error.strerror}); delete it as its owner") from error


def remove_empty(path: Path) -> None:
    """Deletes a directory, if it is there and nothing is in it."""
    if path.is_dir() and not any(path.iterdir()):
        remove(path)


def bytes_below(path: Path) -> int:
    """What a file or a directory takes on the disk, as `du` counts; what has gone meanwhile is nothing."""
    found = _blocks(path)
    for directory, names, files in os.walk(path):
        found += sum(_blocks(Path(directory, name)) for name in (*names, *files))
    return found


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def remove_tree(root: Path) -> None:
    """Deletes a directory, if it is there, even one without the right to write. Raises DirectoryStays."""
    if not root.is_dir() or root.is_symlink():
        return
    try:
        _make_writable(root)
        shutil.rmtree(root)
    except OSError as error:
        raise DirectoryStays(
            f"{error.filename or root} cannot be deleted ({error.strerror}); delete {root} as its owner and repeat"
        ) from error


def _make_writable(root: Path) -> None:
    """Gives the owner all rights to every directory: a file is deleted by writing to the directory it is in."""
    _unlock(root)
    for directory, names, _ in os.walk(root):
        for name in names:
            _unlock(Path(directory, name))


def _unlock(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
        path.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
