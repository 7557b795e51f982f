"""Inductor's cache directory as entries of the compile cache: one entry for each file.

The rest of such an entry is the file's path below the directory, a line feed, and the file. Its name is the SHA-256 of
the path, and `.inductor`. The first name of a path stands for a kind of processor (images/runtime, inductor/cache.py).
"""

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from sagelet_engine.base import nofollow
from sagelet_engine.compile_cache.store import CacheStore

#: The directory, below the one of a host's copies.
DIRECTORY = "inductor"
SUFFIX = ".inductor"
#: The mtime and atime in s of a copy that no worker has read.
UNREAD = 1
#: The most files that are kept of one host, and the most bytes of one file.
MOST_FILES, MOST_BYTES = 4096, 64 * 1024**2
#: Locks, and C++ headers that are precompiled for each job: 100 MB, and a second's work.
LEFT_OUT = frozenset({"locks", "precompiled_headers"})
_PATH = re.compile(r"[0-9a-f]{16}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}){1,6}")


def name_of(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest() + SUFFIX


def lay_out(store: CacheStore, account: str, image: str, place: Path) -> None:
    """Writes copies of an account's files for an image below `place`, which no host has seen yet."""
    for entry in sorted(store.directory(account, image).glob(f"*{SUFFIX}")):
        path, _, content = (store.body(account, image, entry.name) or b"").partition(b"\n")
        text = path.decode("ascii", "replace")
        if not _PATH.fullmatch(text):
            continue
        target = place / text
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        os.utime(target, (UNREAD, UNREAD))


def take(store: CacheStore, account: str, image: str, opt_ml: Path, inner: str, now_ms: int) -> None:
    """Keeps the files that a host added below `inner`, and notes which of the others it read.

    The host may have put anything there. No link is followed, and only ordinary files are read. Where the file system
    does not note reading, the oldest files are the first to go.
    """
    for path, file in _files(opt_ml, inner):
        name = name_of(path)
        if not (store.directory(account, image) / name).exists():
            if (content := _content(file)) is not None:
                store.add(account, image, name, path.encode() + b"\n" + content, now_ms)
        elif _was_read(file):
            store.use(account, image, name, now_ms)


#: A name in an open directory.
_Place = tuple[int, str]


def _files(opt_ml: Path, inner: str) -> Iterator[tuple[str, _Place]]:
    """Yields at most MOST_FILES paths below the directory, and the place of each. Empty if there is no directory."""
    left = MOST_FILES
    try:
        opened = nofollow.open_directory(opt_ml, inner)
    except nofollow.NoFile:
        return
    try:
        for directory, names, files, at in os.fwalk(".", follow_symlinks=False, dir_fd=opened):
            names[:] = sorted(set(names) - LEFT_OUT)
            for file in sorted(files):
                path = os.path.normpath(os.path.join(directory, file))
                if not _PATH.fullmatch(path):
                    continue
                if not left:
                    return
                left -= 1
                yield path, (at, file)
    finally:
        os.close(opened)


def _content(place: _Place) -> bytes | None:
    """Returns the file. None if it is not an ordinary file, or too large."""
    try:
        with nofollow.open_at(*place) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError:
        return None
    return data if len(data) <= MOST_BYTES else None


def _was_read(place: _Place) -> bool:
    try:
        found = os.stat(place[1], dir_fd=place[0], follow_symlinks=False)
    except FileNotFoundError:
        return False
    return found.st_atime > UNREAD
