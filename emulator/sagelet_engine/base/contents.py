"""Lists what is in an archive, without unpacking it. The archive is untrusted: nothing is written, and the work is
bounded."""

import gzip
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from sagelet_engine.base.extraction import Reader, Stream, as_tar_error, size_of

#: The most members that are listed, and the most bytes that are unpacked on the way.
MOST_MEMBERS, MOST_BYTES = 5_000, 1 << 30
#: Letters of all names and targets of links together that are listed.
MOST_LETTERS = 512 * 1024
#: Letters of a reason why an archive cannot be read, which may have a name of it.
_MOST_DAMAGE = 500


@dataclass(frozen=True)
class Member:
    """One entry of an archive. Names are the archive's, and may be anything."""

    #: Its position in the archive, from 0. A name may occur twice.
    index: int
    name: str
    size: int
    #: file, directory, link or special.
    kind: str
    modified_ms: int
    #: The target of a link.
    target: str = ""


@dataclass(frozen=True)
class Contents:
    members: tuple[Member, ...]
    #: False if the archive has more members, longer names or more bytes than this module looks at.
    whole: bool = True
    #: Why the rest cannot be read, or empty.
    damage: str = ""
    #: Bytes that were unpacked to learn it.
    unpacked: int = 0


class _Enough(Exception):
    """The limit of unpacked bytes was reached."""


class _Limited:
    """A stream that ends with _Enough."""

    def __init__(self, stream: Stream, most: int) -> None:
        self._stream = stream
        self._most = most
        self.unpacked = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self.unpacked += len(data)
        if self.unpacked > self._most:
            raise _Enough
        return data


def contents(archive: BinaryIO, *, most_members: int = MOST_MEMBERS, most_bytes: int = MOST_BYTES) -> Contents:
    """Returns the members of a tar file, plain or compressed by gzip. For a damaged one, returns those before the
    damage."""
    found: list[Member] = []
    stream = _Limited(_opened(archive), most_bytes)
    whole, damage, letters = True, "", 0
    try:
        for member, _ in _walk(stream):
            described = _described(len(found), member)
            letters += len(described.name) + len(described.target)
            if len(found) == most_members or letters > MOST_LETTERS:
                whole = False
                break
            found.append(described)
    except _Enough:
        whole = False
    except (tarfile.TarError, OSError) as error:
        whole, damage = False, str(error)[:_MOST_DAMAGE]
    return Contents(tuple(found), whole, damage, stream.unpacked)


@contextmanager
def member_at(archive: BinaryIO, index: int) -> Iterator[tuple[Member, BinaryIO]]:
    """Gives a file of the archive and its bytes. Raises KeyError if there is no such file, and tarfile.TarError."""
    for number, (member, content) in enumerate(_walk(_opened(archive))):
        if number == index:
            if content is None:
                break
            yield _described(index, member), content
            return
    raise KeyError(index)


def _opened(archive: BinaryIO) -> Stream:
    """Returns the tar file that an archive is, or that gzip has compressed."""
    zipped = archive.read(2) == b"\x1f\x8b"
    archive.seek(0)
    return gzip.GzipFile(fileobj=archive) if zipped else archive


def _walk(stream: Stream) -> Iterator[tuple[tarfile.TarInfo, "BinaryIO | None"]]:
    reader = Reader(stream)
    with as_tar_error(), tarfile.open(fileobj=reader, mode="r:") as opened:  # type: ignore[call-overload]
        while (member := opened.next()) is not None:
            # tarfile keeps what it read, which would grow with the number of members.
            opened.members = []
            size_of(member)
            reader.at_content(True)
            yield member, opened.extractfile(member) if member.isreg() else None
            reader.at_content(False)


def _described(index: int, member: tarfile.TarInfo) -> Member:
    kind = "file" if member.isreg() else "directory" if member.isdir() else "special"
    if member.issym() or member.islnk():
        kind = "link"
    target = _text(member.linkname) if kind == "link" else ""
    return Member(index, _text(member.name), member.size, kind, _ms(member.mtime), target)


def _text(name: str) -> str:
    """Returns the name with U+FFFD for each byte that is not UTF-8. tarfile has surrogates for them, which cannot be
    printed."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _ms(mtime: float) -> int:
    """0 for a time that no calendar has."""
    return int(mtime * 1000) if 0 <= mtime < 253_402_300_800 else 0
