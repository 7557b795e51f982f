"""Tar files in and out. Nothing lands outside the directory asked for; devices, pipes and sockets stay out."""

import lzma
import tarfile
import zlib
from pathlib import Path

#: Checkpoints hardly compress; a higher level costs minutes for a few percent.
COMPRESS_LEVEL = 1


def pack(directory: Path, target: Path) -> None:
    """Writes the content of a directory, with it as the archive's root, as a .tar.gz."""
    with tarfile.open(target, "w:gz", compresslevel=COMPRESS_LEVEL) as archive:
        for path in sorted(directory.iterdir()):
            archive.add(path, arcname=path.name, filter=_ordinary)


def unpack(archive: Path, directory: Path) -> None:
    """Extracts a tar file of any compression.

    Raises tarfile.TarError when a member would leave the directory or the archive is cut or damaged.
    """
    try:
        with tarfile.open(archive) as opened:
            opened.extractall(directory, filter="data")
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise tarfile.ReadError(f"the archive is damaged: {error}") from error


def _ordinary(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return member if member.isreg() or member.isdir() or member.issym() or member.islnk() else None
