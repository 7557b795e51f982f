"""Reads the user's scripts from the directories of a job's hosts."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sagelet_engine.base import nofollow
from sagelet_engine.doctor.sources import Sources

#: Directories of scripts, relative to /opt/ml: AWS's toolkit unpacks them into the first, SDK v3 has a channel.
SOURCES = ("code", "input/data/code")
#: The most files that are read, because a source directory may hold a whole repository, or data.
MOST_FILES = 300
MOST_BYTES = 4 * 1024**2
LARGEST_FILE = 512 * 1024
_SKIPPED = {"__pycache__", "site-packages", "node_modules", "build", "dist"}


def read_sources(root: Path, directories: Iterable[str] = ("",), ran: Iterable[str] = ()) -> Sources:
    """Reads the Python files of directories below the root, by path relative to each. Missing directories have none.

    `ran`: paths of those that were loaded, the entry point first.

    The container can write there, so no link is followed, and only ordinary files are opened.
    """
    texts: dict[str, str] = {}
    left = MOST_BYTES
    for directory in directories:
        for path, data in _files(root, directory):
            if len(texts) == MOST_FILES or len(data) > left:
                return Sources(texts, ran)
            left -= len(data)
            texts.setdefault(path, data.decode("utf-8", "replace"))
    return Sources(texts, ran)


def _files(root: Path, inner: str) -> Iterator[tuple[str, bytes]]:
    with suppress(OSError), nofollow.directory(root, inner) as opened:
        for directory, names, files, at in os.fwalk(".", follow_symlinks=False, dir_fd=opened):
            names[:] = sorted(name for name in names if name not in _SKIPPED and not name.startswith("."))
            for name in sorted(files):
                if name.endswith(".py") and (data := _read(name, at)) is not None:
                    yield os.path.normpath(os.path.join(directory, name)), data


def _read(name: str, directory: int) -> bytes | None:
    """Returns the content, or None if it is not an ordinary file, is too large, or is gone."""
    try:
        with nofollow.open_at(directory, name) as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError:
        return None
    return data if len(data) <= LARGEST_FILE else None
