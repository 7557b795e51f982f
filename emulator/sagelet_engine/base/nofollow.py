"""Opens files that a job may have made, from a trusted directory, without following a link on the way.

What a job wrote is hostile: a link could give the job any file of this machine, and a pipe would block the reader. So
directories are opened one by one (openat, O_NOFOLLOW), and anything but an ordinary file counts as missing (NoFile).
Only the directory where a call begins is trusted. Standard library only: nodes of a cluster use it, too.
"""

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, BinaryIO

#: A name below the directory where a call begins.
Inner = str | PurePath | tuple[str, ...]
#: The path of the directory, or a descriptor of it.
Root = str | PurePath | int

#: A directory that is only passed through need not be readable.
_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Opening a pipe must not block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Errors of a missing file, a link or a socket, or of one of these in a directory's place.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG)
#: As many as the kernel follows for one path.
MOST_LINKS = 40


class NoFile(FileNotFoundError):
    """There is no such ordinary file, or something on the way to it is not a directory."""


def parts_of(inner: Inner) -> tuple[str, ...]:
    """Returns the names of the directories and the last name. Raises NoFile for a name that leads elsewhere by
    itself.
    """
    parts = inner if isinstance(inner, tuple) else PurePath(inner).parts
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        raise NoFile(errno.ENOENT, "not a name below a directory", str(inner))
    return parts


def _named(inner: Inner) -> tuple[str, ...]:
    parts = parts_of(inner)
    if not parts:
        raise NoFile(errno.ENOENT, "the directory itself", str(inner))
    return parts


@contextmanager
def directory(root: Root, inner: Inner = (), *, listing: bool = False) -> Iterator[int]:
    """Opens a directory like `open_directory`, and closes it at the end of the block."""
    opened = open_directory(root, inner, listing=listing)
    try:
        yield opened
    finally:
        os.close(opened)


def open_directory(root: Root, inner: Inner = (), *, listing: bool = False) -> int:
    """Returns a descriptor of the directory for other calls; with `listing` also for os.listdir. Raises NoFile."""
    parts = parts_of(inner)
    with _as_no_file(str(root)):
        here = os.open(".", _THROUGH, dir_fd=root) if isinstance(root, int) else os.open(root, _THROUGH)
    try:
        for part in parts:
            here = _replaced(here, part, _THROUGH | os.O_NOFOLLOW)
        return _replaced(here, ".", _LIST) if listing else here
    except BaseException:
        os.close(here)
        raise


def _replaced(here: int, part: str, flags: int) -> int:
    """Opens the directory below and closes the one above. On an error the one above stays open."""
    with _as_no_file(part):
        below = os.open(part, flags, dir_fd=here)
    os.close(here)
    return below


def open_file(root: Root, inner: Inner) -> BinaryIO:
    """Opens an ordinary file for reading. Raises NoFile, or OSError for a file that may not be read."""
    parts = _named(inner)
    with directory(root, parts[:-1]) as parent:
        return open_at(parent, parts[-1])


def open_at(parent: int, name: str) -> BinaryIO:
    """Opens an ordinary file in an open directory, like `open_file`."""
    with _as_no_file(name):
        return os.fdopen(_ordinary(os.open(name, _READ, dir_fd=parent), name), "rb")


def create_at(parent: int, name: str) -> BinaryIO:
    """Makes a new file in an open directory. Raises FileExistsError, also if there is a link."""
    return os.fdopen(os.open(name, _NEW, 0o600, dir_fd=parent), "wb")


def make_directory_at(parent: int, name: str) -> None:
    """Makes a directory in an open one. It may exist. Raises FileExistsError for anything else in its place."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
            raise


def open_path(path: str | PurePath, within: int = 1) -> BinaryIO:
    """Opens a file by its path, like `open_file`. `within`: the number of names at its end that the job may have made.
    The names above are trusted.
    """
    whole = PurePath(path)
    return open_file(whole.parents[within - 1], whole.parts[-within:])


def update(root: Root, inner: Inner, *, append: bool = False) -> BinaryIO:
    """Opens an ordinary file for reading and writing or, with `append`, for adding. Made if it is missing. Raises
    NoFile.
    """
    parts = _named(inner)
    flags = os.O_WRONLY | os.O_APPEND if append else os.O_RDWR
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with directory(root, parts[:-1]) as parent, _as_no_file(parts[-1]):
        opened = _ordinary(os.open(parts[-1], flags, 0o600, dir_fd=parent), parts[-1])
        return os.fdopen(opened, "ab" if append else "r+b")


def _ordinary(descriptor: int, name: str) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoFile(errno.ENOENT, "not an ordinary file", name)
    return descriptor


def read(root: Root, inner: Inner, most: int) -> bytes | None:
    """Returns the first `most` bytes of an ordinary file, or None if there is no such file."""
    try:
        with open_file(root, inner) as file:
            return head(file, most)
    except NoFile:
        return None


def head(file: BinaryIO, most: int) -> bytes:
    """Returns the first `most` bytes. Python would reserve memory for all of them, however short the file is."""
    size = os.fstat(file.fileno()).st_size
    return file.read(min(most, size + 1) if size else most)


def read_json(root: Root, inner: Inner, most: int) -> Any:
    """Returns the content, or None if there is no such file. Raises ValueError for a file that is too long or not
    JSON.
    """
    data = read(root, inner, most + 1)
    return None if data is None else parsed(data, most)


def parsed(data: bytes, most: int) -> Any:
    """Parses JSON that a job wrote. Raises ValueError, whatever is wrong with it."""
    if len(data) > most:
        raise ValueError(f"it has more than {most} bytes")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def write(root: Root, inner: Inner, data: bytes) -> None:
    """Writes a file whole or not at all, and replaces anything there except a directory. Raises NoFile."""
    parts = _named(inner)
    with directory(root, parts[:-1]) as parent:
        temporary = f".{secrets.token_hex(8)}.tmp"
        try:
            with create_at(parent, temporary) as file:
                file.write(data)
            os.replace(temporary, parts[-1], src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)
            raise


def remove(root: Root, inner: Inner) -> None:
    """Removes a file, a link or an empty directory. A missing one, or a directory with content, is not an error."""
    parts = _named(inner)
    with contextlib.suppress(NoFile), directory(root, parts[:-1]) as parent:
        clear(parent, parts[-1])


def clear(parent: int, name: str) -> None:
    """Removes a name in an open directory, like `remove`. A directory with content stays."""
    try:
        is_directory = stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode)
        if is_directory:
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno not in (*_NO_FILE, errno.ENOTEMPTY, errno.EEXIST):
            raise


def leads_within(
    root: Root, place: tuple[str, ...], target: str, pending: Mapping[tuple[str, ...], str] | None = None
) -> bool:
    """True if a link at `place` leads to the directory itself or to something below it.

    It is resolved as the kernel would, through links that exist and through `pending` ones that are to be made. A
    missing name counts as a directory. More than MOST_LINKS in a row count as leading out.
    """
    here, todo, followed = list(place[:-1]), target.split("/")[::-1], 0
    if _leaves(target):
        return False
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return False
            here.pop()
            continue
        link = (pending or {}).get((*here, part)) or target_of(root, here, part)
        if link is None:
            here.append(part)
            continue
        followed += 1
        if followed > MOST_LINKS or _leaves(link):
            return False
        todo += link.split("/")[::-1]
    return True


def _leaves(target: str) -> bool:
    return target.startswith("/") or not target or "\0" in target


def target_of(root: Root, above: list[str], name: str) -> str | None:
    """Returns where a link leads, or None if it is missing or not a link."""
    try:
        with directory(root, tuple(above)) as parent:
            return os.readlink(name, dir_fd=parent)
    except OSError:
        return None


@contextmanager
def _as_no_file(name: str) -> Iterator[None]:
    try:
        yield
    except NoFile:
        raise
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise NoFile(error.errno, error.strerror, name) from error
