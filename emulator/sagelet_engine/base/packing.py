"""Packs files into an archive while others may still write to them. Standard library only: nodes use it, too.

Each file is opened without following a link (`nofollow.py`), and packed with the size that it had at that moment.
"""

import os
import stat
import tarfile
from collections.abc import Callable
from typing import BinaryIO

from sagelet_engine.base import nofollow


def unseen(_data: bytes) -> None:
    """A callback that ignores the bytes of files."""


class Padded:
    """Reads a file that others may cut meanwhile, and pads it with zeros to the announced size."""

    def __init__(self, data: BinaryIO, size: int, seen: Callable[[bytes], None] = unseen) -> None:
        """`seen` is called with all of its bytes."""
        self._data, self._left, self._seen = data, size, seen

    def read(self, size: int) -> bytes:
        wanted = min(size, self._left)
        chunk = self._data.read(wanted)
        self._left -= wanted
        self._seen(chunk)
        return chunk.ljust(wanted, b"\0")


def member_of(name: str, status: os.stat_result, target: str = "") -> tarfile.TarInfo:
    """A tar header without an owner: users of one machine do not exist on another."""
    member = tarfile.TarInfo(name)
    member.mode, member.mtime, member.linkname = stat.S_IMODE(status.st_mode), int(status.st_mtime), target
    if stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        member.type = tarfile.SYMTYPE
    else:
        member.size = status.st_size
    return member


def add(archive: tarfile.TarFile, root: nofollow.Root, inner: nofollow.Inner, name: str) -> None:
    """Adds one file, directory or link below a directory to an archive. Anything else is left out. Raises
    nofollow.NoFile.
    """
    parts = nofollow.parts_of(inner)
    with nofollow.directory(root, parts[:-1]) as parent:
        try:
            status = os.lstat(parts[-1], dir_fd=parent)
        except FileNotFoundError as error:
            raise nofollow.NoFile(error.errno, error.strerror, name) from error
        if stat.S_ISREG(status.st_mode):
            with nofollow.open_at(parent, parts[-1]) as data:
                member = member_of(name, os.fstat(data.fileno()))
                archive.addfile(member, Padded(data, member.size))  # type: ignore[arg-type]
        elif stat.S_ISLNK(status.st_mode):
            archive.addfile(member_of(name, status, os.readlink(parts[-1], dir_fd=parent)))
        elif stat.S_ISDIR(status.st_mode):
            archive.addfile(member_of(name, status))
    # tarfile keeps the members it has written, so memory would grow with the number of files.
    archive.members = []  # type: ignore[attr-defined]  # typeshed leaves it out


def add_tree(archive: tarfile.TarFile, root: nofollow.Root, inner: str) -> None:
    """Adds an entry under its own name with all that is below it, like `add`. Raises nofollow.NoFile."""
    add(archive, root, inner, inner)
    try:
        with nofollow.directory(root, inner, listing=True) as opened:
            names = sorted(os.listdir(opened))
    except nofollow.NoFile:
        return
    for name in names:
        add_tree(archive, root, f"{inner}/{name}")
