"""Tar files in and out. Nothing lands outside the directory asked for; devices, pipes and sockets stay out."""

import gzip
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.data import members
from sagelet_engine.data.members import TooLarge

__all__ = ["TooLarge", "merged", "pack", "unpack"]

#: Checkpoints hardly compress; a higher level costs minutes for a few percent.
COMPRESS_LEVEL = 1
_CHUNK = 1024 * 1024


def nobody(_name: str) -> None:
    """Hears of what is left out, and says nothing."""


def pack(directories: Sequence[Path], target: Path | BinaryIO, left_out: Callable[[str], None] = nobody) -> None:
    """Writes the content of directories, merged as the archive's root, as a .tar.gz; a stream need not seek.

    Names may be of any bytes. `left_out`: see `merged`.
    """
    with ExitStack() as stack:
        out = stack.enter_context(target.open("wb")) if isinstance(target, Path) else target
        packed = stack.enter_context(gzip.GzipFile("", "wb", COMPRESS_LEVEL, out))
        archive = stack.enter_context(tarfile.open(fileobj=packed, mode="w|", bufsize=_CHUNK))
        for name, path in merged(directories, left_out):
            archive.add(path, arcname=name, recursive=False, filter=_ordinary)
            # tarfile keeps what it wrote, which would grow with the number of files.
            archive.members = []  # type: ignore[attr-defined]  # typeshed leaves it out


def merged(
    directories: Sequence[Path], left_out: Callable[[str], None] = nobody, below: str = ""
) -> Iterator[tuple[str, Path]]:
    """All entries of directories taken as one, by name, a directory before what is in it; links are not followed.

    Directories of one name are merged; of anything else the last directory's entry is taken. `left_out` is called
    with the name of each that the system does not open by its path (4,096 bytes on Linux).
    """
    for name in sorted({entry for directory in directories for entry in os.listdir(directory)}):
        there = [path for directory in directories if os.path.lexists(path := directory / name)]
        if not there:
            left_out(f"{below}{name}")
            continue
        yield f"{below}{name}", there[-1]
        if _is_directory(there[-1]):
            yield from merged([path for path in there if _is_directory(path)], left_out, f"{below}{name}/")


def unpack(archive: Path, directory: Path, most: int | None = None) -> None:
    """Extracts a tar file, plain or compressed by gzip, as the toolkit of SageMaker's containers does.

    `most`: bytes that it may take. Raises TooLarge beyond that, and tarfile.TarError when a member would leave the
    directory or the archive is cut, damaged or no archive.
    """
    try:
        with archive.open("rb") as packed:
            zipped = packed.read(2) == b"\x1f\x8b"
            packed.seek(0)
            # tarfile's own way through a compression stops at nothing.
            stream: BinaryIO = gzip.GzipFile(fileobj=packed) if zipped else packed  # type: ignore[assignment]
            members.extract(members.Reader(stream), directory, most)
    except (EOFError, zlib.error, gzip.BadGzipFile, RecursionError, OverflowError, ValueError) as error:
        raise tarfile.ReadError(f"the archive is damaged: {error}") from error


def _ordinary(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return member if member.isreg() or member.isdir() or member.issym() or member.islnk() else None


def _is_directory(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)
