"""Lists what is in an archive, without unpacking it. The archive is untrusted: nothing is written, and the work is
bounded."""

import gzip
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from sagelet_engine.base.members import Reader, Stream, as_tar_error, size_of

#: The most members that are listed, and the most bytes that are unpacked on the way.
MOST_MEMBERS, MOST_BYTES = 5_000, 1 << 30


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
    #: False if the archive has more members or more bytes than this module looks at.
    whole: bool = True
    #: Why the rest cannot be read, or empty.
    damage: str = ""


class _Enough(Exception):
    """The limit of unpacked bytes was reached."""


class _Limited:
    """A stream that ends with _Enough."""

    def __init__(self, stream: Stream, most: int) -> None:
        self._stream = stream
        self._left = most

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _Enough
        return data


def contents(archive: BinaryIO, *, most_members: int = MOST_MEMBERS, most_bytes: int = MOST_BYTES) -> Contents:
    """Returns the members of a tar file, plain or compressed by gzip. For a damaged one, returns those before the
    damage."""
    found: list[Member] = []
    try:
        for member, _ in _walk(archive, most_bytes):
            if len(found) == most_members:
                return Contents(tuple(found), whole=False)
            found.append(_described(len(found), member))
    except _Enough:
        return Contents(tuple(found), whole=False)
    except (tarfile.TarError, OSError) as error:
        return Contents(tuple(found), whole=False, damage=str(error))
    return Contents(tuple(found))


@contextmanager
def member_at(archive: BinaryIO, index: int) -> Iterator[tuple[Member, BinaryIO]]:
    """Gives a file of the archive and its bytes. Raises KeyError if there is no such file, and tarfile.TarError."""
    for number, (member, content) in enumerate(_walk(archive, None)):
        if number == index:
            if content is None:
                break
            yield _described(index, member), content
            return
    raise KeyError(index)


def _walk(archive: BinaryIO, most_bytes: int | None) -> Iterator[tuple[tarfile.TarInfo, "BinaryIO | None"]]:
    zipped = archive.read(2) == b"\x1f\x8b"
    archive.seek(0)
    stream: Stream = gzip.GzipFile(fileobj=archive) if zipped else archive
    reader = Reader(stream if most_bytes is None else _Limited(stream, most_bytes))
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
