"""Members of a tar file, taken out by hand: an archive says what it likes, and Python's extraction believes much of it.

Its filter (PEP 706) came with 3.10.12 and 3.11.4 (Debian 12 has 3.11.2), and until 2025 a chain of links whose real
path is too long for the system led out of the directory past it (CVE-2025-4517). So: nothing is written through a link,
a header has an end (8 GB of zeros for one are some MB), and so has the whole.
"""

import errno
import os
import re
import shutil
import stat
import tarfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

#: Bytes of one member's header, with its name, its attributes and its map of holes.
MOST_HEADER = 256 * 1024
#: Bytes that a member counts for whatever is in it: a file without content takes an inode and a name.
LEAST_SIZE = 4096
_CHUNK = 1024 * 1024
#: tarfile looks for numbers in a header in a time that grows with the square of their digits.
_LONG_NUMBER = re.compile(rb"\d{256}")
#: What Python's own filter leaves of a file's permissions, and what it adds.
_MOST_MODE, _LEAST_MODE, _EXECUTE = 0o755, 0o600, 0o111
#: Names that cannot be: too long, or two members that need one place.
_NO_PLACE = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTEMPTY, errno.EINVAL)


class TooLarge(tarfile.ExtractError):
    """The members take more than the archive may."""


class Reader:
    """An archive without its compression, as tarfile reads it: without an end only where a member's content is."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._left: int | None = MOST_HEADER

    @property
    def header(self) -> int:
        """Bytes that were read since the last content."""
        return 0 if self._left is None else MOST_HEADER - self._left

    def at_content(self, content: bool) -> None:
        self._left = None if content else MOST_HEADER

    def read(self, size: int = -1) -> bytes:
        if self._left is None:
            return self._stream.read(size)
        if not 0 <= size <= self._left:
            raise tarfile.ReadError(f"the header of a member is larger than {MOST_HEADER} bytes")
        self._left -= size
        data = self._stream.read(size)
        if _LONG_NUMBER.search(data):
            raise tarfile.ReadError("the header of a member has a number that is none")
        return data

    def seek(self, position: int) -> int:
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()


def extract(reader: Reader, directory: Path, most: int | None = None) -> None:
    """Extracts all members. `most`: bytes that they may take.

    Raises TooLarge, and tarfile.TarError for a member that would leave the directory or is no file.
    """
    with tarfile.open(fileobj=reader, mode="r:") as opened:  # type: ignore[call-overload]
        while (member := opened.next()) is not None:
            # tarfile keeps what it read, which would grow with the number of members.
            opened.members = []
            size = _size(member) + reader.header
            if most is not None:
                most -= size
                if most < 0:
                    raise TooLarge(f"with {member.name!r} its members take more than it may")
            reader.at_content(True)
            try:
                _extract(opened, member, directory)
            except OSError as error:
                if error.errno not in _NO_PLACE:
                    raise
                raise tarfile.ExtractError(f"{member.name!r}: {error.strerror}") from error
            reader.at_content(False)


def _size(member: tarfile.TarInfo) -> int:
    """Bytes that it takes at least. Raises tarfile.TarError for sizes and maps of holes that cannot be."""
    end = 0
    for start, length in getattr(member, "sparse", None) or ():
        # What is left of the header's four places is zeros.
        if length == 0:
            continue
        if start < end or length < 0:
            raise tarfile.ReadError(f"{member.name!r} has a map of holes that cannot be")
        end = start + length
    if member.size < max(0, end):
        raise tarfile.ReadError(f"{member.name!r} has a size that cannot be")
    return max(member.size if member.isreg() else 0, LEAST_SIZE)


def _extract(opened: tarfile.TarFile, member: tarfile.TarInfo, directory: Path) -> None:
    parts = _parts(member.name, member)
    if not parts:
        # The directory itself.
        directory.mkdir(parents=True, exist_ok=True)
        return
    target = _place(directory, parts, member, make=True)
    if member.isdir():
        if not _is_directory(target):
            _clear(target)
            target.mkdir()
        return
    _clear(target)
    if member.isreg():
        _write(opened, member, target)
    elif member.issym():
        _check_link(parts, member)
        target.symlink_to(member.linkname)
    elif member.islnk():
        source = _place(directory, _parts(member.linkname, member), member, make=False)
        if not source.is_file() or source.is_symlink():
            raise tarfile.ExtractError(f"{member.name!r} is a link to what is no file")
        os.link(source, target)
    else:
        raise tarfile.ExtractError(f"{member.name!r} is a special file")


def _parts(name: str, member: tarfile.TarInfo) -> tuple[str, ...]:
    """The name as names of directories and, at the end, its own. An absolute one is taken from the directory on."""
    parts = PurePosixPath(name.lstrip("/")).parts
    if ".." in parts or "\0" in name:
        raise tarfile.ExtractError(f"{member.name!r} would be extracted outside of the directory")
    return parts


def _place(directory: Path, parts: tuple[str, ...], member: tarfile.TarInfo, *, make: bool) -> Path:
    """Where a member goes, once all directories above it are directories and no links."""
    place = directory
    place.mkdir(parents=True, exist_ok=True)
    for part in parts[:-1]:
        place = place / part
        if make and not os.path.lexists(place):
            place.mkdir()
        if not _is_directory(place):
            raise tarfile.ExtractError(f"{member.name!r} is below {place.name!r}, which is no directory")
    return place / parts[-1] if parts else place


def _check_link(parts: tuple[str, ...], member: tarfile.TarInfo) -> None:
    """Where the link would lead to, by its letters: nothing is ever written through it."""
    if os.path.isabs(member.linkname):
        raise tarfile.ExtractError(f"{member.name!r} is a link to an absolute path")
    there = os.path.normpath(os.path.join(*parts[:-1], member.linkname))
    if there.startswith("../") or there == "..":
        raise tarfile.ExtractError(f"{member.name!r} is a link to outside of the directory")


def _write(opened: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = opened.extractfile(member)
    if content is None:
        raise tarfile.ExtractError(f"{member.name!r} has no content")
    with content, target.open("xb") as out:
        shutil.copyfileobj(content, out, _CHUNK)
        mode = member.mode & _MOST_MODE
        os.fchmod(out.fileno(), (mode if mode & 0o100 else mode & ~_EXECUTE) | _LEAST_MODE)
    _date(target, member.mtime)


def _date(target: Path, mtime: float) -> None:
    try:
        os.utime(target, (mtime, mtime))
    except (OverflowError, ValueError, OSError):
        # A time that the file system does not know: it stays that of now.
        return


def _clear(target: Path) -> None:
    """What an earlier member has put there goes, and is not written through."""
    if os.path.lexists(target) and not _is_directory(target):
        target.unlink()


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False
