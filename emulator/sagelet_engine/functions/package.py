"""Unpacks a function's package. Whoever may create functions made it, so it is hostile.

The limits are Lambda's (developer guide, "Lambda quotas"): 250 MB unpacked.
"""

import io
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from sagelet_engine.base.nofollow import NoFile, parts_of
from sagelet_engine.model.functions import FunctionRefused

#: Bytes of a package, unpacked, and its files.
MOST_BYTES, MOST_FILES = 262_144_000, 50_000
_CHUNK = 1024**2
#: Bits of a mode in a zip file's external attributes.
_MODE_SHIFT, _TYPE, _LINK, _EXECUTABLE = 16, 0o170000, 0o120000, 0o111


def unpack(code: bytes, target: Path) -> None:
    """Unpacks into a new directory, which everybody can read. Nothing is written outside of it. Raises
    FunctionRefused, OSError.
    """
    target.mkdir(parents=True)
    try:
        with zipfile.ZipFile(io.BytesIO(code)) as archive:
            _unpack(archive, target)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError, ValueError) as error:
        raise FunctionRefused(f"the function's package is not a zip file that can be read: {error}") from error


def _unpack(archive: zipfile.ZipFile, target: Path) -> None:
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise FunctionRefused(f"the function's package has more than {MOST_FILES} files")
    left = MOST_BYTES
    for entry in entries:
        place = target.joinpath(*_names(entry))
        mode = entry.external_attr >> _MODE_SHIFT
        try:
            if entry.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            if mode & _TYPE == _LINK:
                raise FunctionRefused(f"the function's package has the symbolic link {entry.filename!r}; leave it out")
            place.parent.mkdir(parents=True, exist_ok=True)
            left -= _write(archive, entry, place, left)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise FunctionRefused(f"the function's package has {entry.filename!r} as a file and a directory") from error
        place.chmod(0o755 if mode & _EXECUTABLE else 0o644)


def _names(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    name = entry.filename
    try:
        if PurePosixPath(name).is_absolute() or "\\" in name:
            raise NoFile
        return parts_of(PurePosixPath(name).parts)
    except NoFile:
        raise FunctionRefused(f"the function's package has a name that leads out of it: {name[:200]!r}") from None


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, place: Path, most: int) -> int:
    """Returns the bytes that were written. The size that the archive states may be a lie."""
    written = 0
    with archive.open(entry) as source, place.open("wb") as file:
        while chunk := source.read(_CHUNK):
            written += len(chunk)
            if written > most:
                raise FunctionRefused(f"the function's package has more than {MOST_BYTES} bytes unpacked")
            file.write(chunk)
    return written
