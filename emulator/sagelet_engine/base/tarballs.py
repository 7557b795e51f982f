"""Packs and unpacks tar files. Nothing lands outside of the given directory; devices, pipes and sockets are left
out.
"""

import gzip
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePath
from typing import BinaryIO

from sagelet_engine.base import extraction, nofollow
from sagelet_engine.base.extraction import TooLarge
from sagelet_engine.base.key_names import Why
from sagelet_engine.base.packing import Padded

__all__ = ["TooLarge", "merged", "opened", "pack", "unpack"]

#: Checkpoints hardly compress; a higher level costs minutes for a few percent.
COMPRESS_LEVEL = 1
_CHUNK = 1024 * 1024


def nobody(_name: str, _why: Why = Why.KEY) -> None:
    """A callback that ignores what is left out."""


def pack(directories: Sequence[Path], target: Path | BinaryIO, left_out: Callable[[str, Why], None] = nobody) -> None:
    """Writes the content of directories, merged as the archive's root, as a .tar.gz. The target need not seek.

    Names may be of any bytes. Links stay links. `left_out` is called with each name that is not packed, and why.
    """
    with ExitStack() as stack:
        out = stack.enter_context(target.open("wb")) if isinstance(target, Path) else target
        packed = stack.enter_context(gzip.GzipFile("", "wb", COMPRESS_LEVEL, out))
        archive = stack.enter_context(tarfile.open(fileobj=packed, mode="w|", bufsize=_CHUNK))
        for name, path in merged(directories, left_out):
            try:
                fits = _add(archive, name, path)
            except PermissionError:
                left_out(name, Why.UNREADABLE)
                continue
            if not fits:
                left_out(name, Why.SPECIAL)
            # tarfile keeps the members it has written, so memory would grow with the number of files.
            archive.members = []  # type: ignore[attr-defined]  # typeshed leaves it out


def merged(directories: Sequence[Path], left_out: Callable[[str, Why], None] = nobody) -> Iterator[tuple[str, Path]]:
    """Yields all entries of directories taken as one, by name, a directory before its content. Links are not followed.

    Directories of one name are merged. Of anything else the last directory's entry counts. `left_out` is called with
    each name that the system cannot open by its path (4,096 bytes on Linux), and each directory that may not be read.
    """
    # Not recursive, because a script may nest directories to any depth.
    waiting = [("", list(directories), iter(_names(directories)))]
    while waiting:
        below, here, names = waiting[-1]
        name = next(names, None)
        if name is None:
            waiting.pop()
            continue
        there = [path for directory in here if os.path.lexists(path := directory / name)]
        if not there:
            left_out(f"{below}{name}", Why.KEY)
            continue
        yield f"{below}{name}", there[-1]
        if _is_directory(there[-1]):
            inner = [path for path in there if _is_directory(path)]
            try:
                waiting.append((f"{below}{name}/", inner, iter(_names(inner))))
            except PermissionError:
                left_out(f"{below}{name}/", Why.UNREADABLE)


def _names(directories: Sequence[Path]) -> list[str]:
    return sorted({entry for directory in directories for entry in os.listdir(directory)})


def unpack(archive: Path, directory: Path, most: int | None = None) -> None:
    """Extracts a tar file, plain or compressed by gzip, as the toolkit of SageMaker's containers does.

    `most`: bytes that it may take; by default what the disk has left. Raises TooLarge beyond that. Raises
    tarfile.TarError if a member would leave the directory, or if the archive is cut, damaged or not an archive.
    """
    try:
        with archive.open("rb") as packed:
            zipped = packed.read(2) == b"\x1f\x8b"
            packed.seek(0)
            # tarfile's own decompression has no limit.
            extraction.extract(extraction.Reader(gzip.GzipFile(fileobj=packed) if zipped else packed), directory, most)
    except gzip.BadGzipFile as error:
        raise tarfile.ReadError(f"the archive is damaged: {error}") from error


def opened(name: str, path: Path) -> BinaryIO:
    """Opens a file that `merged` has found, through no link below the directory where it was found."""
    return nofollow.open_path(path, len(PurePath(name).parts))


def _add(archive: tarfile.TarFile, name: str, path: Path) -> bool:
    """Adds an entry. Returns False for a pipe, a socket or a device. Raises PermissionError."""
    member = archive.gettarinfo(path, name)
    # gettarinfo returns None for a socket.
    if member is not None and (member.isdir() or member.issym() or member.islnk()):
        archive.addfile(member)
    elif member is not None and member.isreg():
        with opened(name, path) as data:
            member.size = os.fstat(data.fileno()).st_size
            archive.addfile(member, Padded(data, member.size))  # type: ignore[arg-type]
    else:
        return False
    return True


def _is_directory(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)
