"""The user's scripts from the directories that a job's hosts found them in."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from sagelet_engine.doctor.sources import Sources

#: A source directory may hold a whole repository, or data; the doctor is content with less.
MOST_FILES = 300
MOST_BYTES = 4 * 1024**2
LARGEST_FILE = 512 * 1024
_SKIPPED = {"__pycache__", "site-packages", "node_modules", "build", "dist"}


def read_sources(directories: Iterable[Path]) -> Sources:
    """The Python files below the directories, by path relative to theirs; those that are not there have none.

    The container can write there: no link is followed, and nothing but ordinary files is opened.
    """
    texts: dict[str, str] = {}
    left = MOST_BYTES
    for directory in directories:
        for path, data in _files(directory):
            if len(texts) == MOST_FILES or len(data) > left:
                return Sources(texts)
            left -= len(data)
            texts.setdefault(path, data.decode("utf-8", "replace"))
    return Sources(texts)


def _files(root: Path) -> Iterator[tuple[str, bytes]]:
    try:
        opened = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        for directory, names, files, at in os.fwalk(".", follow_symlinks=False, dir_fd=opened):
            names[:] = sorted(name for name in names if name not in _SKIPPED and not name.startswith("."))
            for name in sorted(files):
                if name.endswith(".py") and (data := _read(name, at)) is not None:
                    yield os.path.normpath(os.path.join(directory, name)), data
    finally:
        os.close(opened)


def _read(name: str, directory: int) -> bytes | None:
    """None for what is no ordinary file, is too large, or went away."""
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except OSError:
        return None
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        data = file.read(LARGEST_FILE + 1)
    return data if len(data) <= LARGEST_FILE else None
