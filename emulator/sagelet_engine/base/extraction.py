"""Unpacks archives of any origin. This is the only code that does so, on the server and on nodes.

An archive is untrusted, and Python's own extraction trusts much of it. Its filter (PEP 706) came with 3.10.12 and
3.11.4 (Debian 12 has 3.11.2), and until 2025 a chain of links whose real path is too long for the system led out of the
directory past it (CVE-2025-4517). So here:

- Nothing is written through a link: every directory on the way is opened without following one (`nofollow.py`).
- Links are made last, all or none. By then it is known what they lead through, and each is resolved as the kernel
  would.
- Headers, the number of members and the total size are bounded (8 GB of zeros as one header take some MB).

Standard library only.
"""

import errno
import os
import re
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from sagelet_engine.base import nofollow

#: Bytes of one member's header, with its name, its attributes and its map of holes.
MOST_HEADER = 256 * 1024
#: Bytes that a member counts at least. A file without content still takes an inode and a name.
LEAST_SIZE = 4096
#: PATH_MAX and SYMLINK_MAX of Linux. The kernel would not enforce them here, because it never gets a whole path.
MOST_NAME = 4095
_CHUNK = 1024 * 1024
#: tarfile's time to find numbers in a header grows with the square of their digits.
_LONG_NUMBER = re.compile(rb"\d{256}")
#: What Python's own filter keeps of a file's permissions, and what it adds.
_MOST_MODE, _LEAST_MODE, _EXECUTE = 0o755, 0o600, 0o111
#: Errors of names that cannot exist: too long, or two members that need one place.
_NO_PLACE = (
    errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ENOTEMPTY, errno.EINVAL, errno.ELOOP,
    errno.ENOENT, errno.EILSEQ,
)  # fmt: skip

Parts = tuple[str, ...]


class TooLarge(tarfile.ExtractError):
    """The members take more than the archive may."""


class Stream(Protocol):
    """A source of an archive's bytes."""

    def read(self, size: int = -1, /) -> bytes: ...


class Reader:
    """An archive without its compression, as tarfile reads it. Only the content of a member may be without limit.

    It is read forward only, so the archive may come from a network.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left: int | None = MOST_HEADER
        self._at = 0

    @property
    def header(self) -> int:
        """Returns the bytes that were read since the last content."""
        return 0 if self._left is None else MOST_HEADER - self._left

    def at_content(self, content: bool) -> None:
        self._left = None if content else MOST_HEADER

    def read(self, size: int = -1) -> bytes:
        if self._left is None:
            return self._read(size)
        if not 0 <= size <= self._left:
            raise tarfile.ReadError(f"the header of a member is larger than {MOST_HEADER} bytes")
        self._left -= size
        data = self._read(size)
        if _LONG_NUMBER.search(data):
            raise tarfile.ReadError("the header of a member has a malformed number")
        return data

    def seek(self, position: int) -> int:
        if position < self._at:
            raise tarfile.ReadError("the archive refers back to an earlier place")
        while position > self._at and self._read(min(position - self._at, _CHUNK)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._at += len(data)
        return data


#: Called with each member and its content. True: the member was taken, so it is not written to the directory. May raise
#: tarfile.TarError.
Divert = Callable[[Parts, tarfile.TarInfo, "BinaryIO | None"], bool]


def extract(reader: Reader, directory: Path, most: int | None = None, divert: Divert | None = None) -> None:
    """Extracts all members. `most`: bytes that they may take; by default what the disk has left.

    Raises TooLarge. Raises tarfile.TarError for a member that would leave the directory or is not a file, and for an
    archive that is cut or damaged, or not an archive.
    """
    with as_tar_error(), Tree(directory, most) as tree:
        with _opened(reader) as opened:
            while (member := opened.next()) is not None:
                # tarfile keeps the members it has read, so memory would grow with their number.
                opened.members = []
                tree.charge(member.name, size_of(member) + reader.header)
                reader.at_content(True)
                parts, content = parts_of(member.name), opened.extractfile(member) if member.isreg() else None
                if divert is None or not divert(parts, member, content):
                    tree.put(parts, member, content)
                reader.at_content(False)
        tree.make_links()


def _opened(reader: Reader) -> Any:
    """Opens an archive, which reads its first header."""
    try:
        return tarfile.open(fileobj=reader, mode="r:")  # type: ignore[call-overload]
    except tarfile.ReadError as error:
        raise tarfile.ReadError(f"it is not a tar archive, plain or compressed by gzip ({error})") from error


@contextmanager
def as_tar_error() -> Iterator[None]:
    """Turns the errors of tarfile and of the compressions at a damaged archive into tarfile.ReadError."""
    try:
        yield
    except (EOFError, zlib.error, RecursionError, OverflowError, ValueError) as error:
        raise tarfile.ReadError(f"the archive is damaged: {error}") from error


def size_of(member: tarfile.TarInfo) -> int:
    """Returns the bytes that a member takes at least. Raises tarfile.TarError for impossible sizes and maps of
    holes.
    """
    end = 0
    for start, length in getattr(member, "sparse", None) or ():
        # Unused entries of the header's four are zeros.
        if length == 0:
            continue
        if start < end or length < 0:
            raise tarfile.ReadError(f"{member.name!r} has an impossible map of holes")
        end = start + length
    if member.size < max(0, end):
        raise tarfile.ReadError(f"{member.name!r} has an impossible size")
    return max(member.size if member.isreg() else 0, LEAST_SIZE)


def parts_of(name: str) -> Parts:
    """Returns the names of the directories and of the file itself. An absolute name counts from the directory.

    Raises tarfile.TarError for a name that leads out of the directory, or that no system can have.
    """
    parts = PurePosixPath(name.lstrip("/")).parts
    if ".." in parts or "\0" in name:
        raise tarfile.ExtractError(f"{name!r} would be extracted outside of the directory")
    if len(os.fsencode(name)) > MOST_NAME:
        raise tarfile.ExtractError(f"{name[:100]!r}... is longer than a name may be")
    return parts


class Tree:
    """A directory that is filled with at most `most` bytes, or with what its disk has left. Made if it is missing.

    Links are only made by `make_links`.
    """

    def __init__(self, directory: Path, most: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._most = shutil.disk_usage(directory).free if most is None else most
        self._left = self._most
        self._limit = "that the disk has left" if most is None else "that they may take"
        self._links: dict[Parts, str] = {}

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._root)

    def charge(self, name: str, size: int) -> None:
        """Raises TooLarge."""
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"with {name[:100]!r} its members take more than the {self._most:,} bytes {self._limit}")

    def put(self, parts: Parts, member: tarfile.TarInfo, content: Stream | None) -> None:
        """Writes a member to its place. Raises tarfile.TarError."""
        if not parts:
            # The directory itself.
            return
        with _as_no_place(member.name), self._parent(parts, make=True) as parent:
            self._links.pop(parts, None)
            self._place(parent, parts, member, content)

    def make_links(self) -> None:
        """Makes all links after checking that each leads to something within the directory. Raises tarfile.TarError."""
        for parts, target in self._links.items():
            if not nofollow.leads_within(self._root, parts, target, self._links):
                raise tarfile.ExtractError(f"{'/'.join(parts)!r} is a link to outside of the directory: {target!r}")
        for parts, target in self._links.items():
            with _as_no_place("/".join(parts)), self._parent(parts, make=False) as parent:
                os.symlink(target, parts[-1], dir_fd=parent)
        self._links = {}

    def _place(self, parent: int, parts: Parts, member: tarfile.TarInfo, content: Stream | None) -> None:
        name = parts[-1]
        if member.isdir():
            self._directory(parent, name, member)
            return
        # An existing file is replaced, not written through.
        nofollow.clear(parent, name)
        if member.isreg():
            _write(parent, member, name, content)
        elif member.issym():
            self._link(parts, member)
        elif member.islnk():
            self._hard_link(parent, name, member)
        else:
            raise tarfile.ExtractError(f"{member.name!r} is a special file")

    def _directory(self, parent: int, name: str, member: tarfile.TarInfo) -> None:
        if not _is(stat.S_ISDIR, parent, name):
            nofollow.clear(parent, name)
            os.mkdir(name, dir_fd=parent)
        with nofollow.directory(parent, (name,), listing=True) as made:
            os.fchmod(made, member.mode & _MOST_MODE | stat.S_IRWXU)

    def _link(self, parts: Parts, member: tarfile.TarInfo) -> None:
        target = member.linkname
        if os.path.isabs(target):
            raise tarfile.ExtractError(f"{member.name!r} is a link to an absolute path")
        if not target or "\0" in target or len(os.fsencode(target)) > MOST_NAME:
            raise tarfile.ExtractError(f"{member.name!r} is an impossible link")
        self._links[parts] = target

    def _hard_link(self, parent: int, name: str, member: tarfile.TarInfo) -> None:
        source = parts_of(member.linkname)
        if not source or source in self._links:
            raise tarfile.ExtractError(f"{member.name!r} is a link to something that is not a file")
        with self._parent(source, make=False) as above:
            if not _is(stat.S_ISREG, above, source[-1]):
                raise tarfile.ExtractError(f"{member.name!r} is a link to something that is not a file")
            os.link(source[-1], name, src_dir_fd=above, dst_dir_fd=parent, follow_symlinks=False)

    @contextmanager
    def _parent(self, parts: Parts, *, make: bool) -> Iterator[int]:
        """Opens the directory of a member, once all above it are directories and not links."""
        for end in range(1, len(parts)) if self._links else ():
            if parts[:end] in self._links:
                raise tarfile.ExtractError(f"{'/'.join(parts)!r} is below {parts[end - 1]!r}, which is not a directory")
        if make:
            self._make_directories(parts)
        try:
            with nofollow.directory(self._root, parts[:-1]) as parent:
                yield parent
        except nofollow.NoFile as error:
            raise tarfile.ExtractError(f"{'/'.join(parts)!r} is below something that is not a directory") from error

    def _make_directories(self, parts: Parts) -> None:
        """Makes directories that the archive does not name, or names later."""
        for end in range(len(parts) - 1, 0, -1):
            try:
                with nofollow.directory(self._root, parts[:end]):
                    break
            except nofollow.NoFile as error:
                if error.errno != errno.ENOENT:
                    raise tarfile.ExtractError(
                        f"{'/'.join(parts)!r} is below something that is not a directory"
                    ) from error
        else:
            end = 0
        for below in range(end, len(parts) - 1):
            self.charge(parts[below], LEAST_SIZE)
            with nofollow.directory(self._root, parts[:below]) as parent:
                os.mkdir(parts[below], dir_fd=parent)


@contextmanager
def _as_no_place(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise tarfile.ExtractError(f"{name!r}: {error.strerror}") from error


def _write(parent: int, member: tarfile.TarInfo, name: str, content: Stream | None) -> None:
    if content is None:
        raise tarfile.ExtractError(f"{member.name!r} has no content")
    mode = member.mode & _MOST_MODE
    with nofollow.create_at(parent, name) as out:
        shutil.copyfileobj(content, out, _CHUNK)
        os.fchmod(out.fileno(), (mode if mode & 0o100 else mode & ~_EXECUTE) | _LEAST_MODE)
        out.flush()
        _date(out.fileno(), member.mtime)


def _date(descriptor: int, mtime: float) -> None:
    try:
        os.utime(descriptor, (mtime, mtime))
    except (OverflowError, ValueError, OSError):
        # The file system cannot store this time, so the file keeps the present one.
        return


def _is(kind: Callable[[int], bool], parent: int, name: str) -> bool:
    try:
        return kind(os.lstat(name, dir_fd=parent).st_mode)
    except FileNotFoundError:
        return False
