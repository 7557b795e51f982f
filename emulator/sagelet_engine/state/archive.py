"""The format of an export: a tar file, written and read as a stream.

    sagelet-export.json        version of the format, of sagelet, of the databases' schemas: the first member
    sagelet.db                 jobs, logs, metrics
    s3/catalog.db              buckets, objects, multipart uploads under way
    s3/files/FILE_ID           their bytes, by the names that the catalogue has for them
    jobs/..., warm-pools/...   directories of ended jobs, caches of warm pools
    hub/...                    records and files of the hub's repositories
    sagelet-export-end.json    number of members before it, and the SHA-256 of all of them: the last member

The digest covers names, kinds and bytes, so it finds an archive that was cut, changed or put together from several.
"""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from sagelet_engine.base import extraction, nofollow
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.extraction import Parts
from sagelet_engine.base.packing import Padded, member_of, unseen
from sagelet_engine.base.tarballs import COMPRESS_LEVEL
from sagelet_engine.base.wire import JsonObject

FORMAT = 2
HEAD = "sagelet-export.json"
END = "sagelet-export-end.json"
DATABASE = "sagelet.db"
CATALOG = "s3/catalog.db"
FILES = "s3/files/"
#: Directories of a data directory that are exported as they are.
TREES = ("jobs", "warm-pools", "hub")
CHUNK = 1024 * 1024
_MAX_JSON = 1024 * 1024
_COMPRESSIONS: dict[bytes, Callable[[BinaryIO], extraction.Stream]] = {
    b"\x1f\x8b": lambda source: gzip.GzipFile(fileobj=source),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}


class ArchiveDamaged(SageletError):
    """The archive is cut or changed, or it is not an export of sagelet."""


class Writer:
    """Writes the members of an archive. Raises OSError."""

    def __init__(self, tar: tarfile.TarFile, head: JsonObject) -> None:
        self._tar = tar
        self._digest = _Digest()
        self._add_json(HEAD, {"format": FORMAT, **head})

    def file(self, name: str, path: Path, seen: Callable[[bytes], None] = unseen) -> int:
        """Adds a file with its present size, even if it changes meanwhile. Returns the size.

        `seen` is called with all of its bytes.
        """
        with nofollow.open_path(path) as data:
            return self._file(name, data, seen)

    def _file(self, name: str, data: BinaryIO, seen: Callable[[bytes], None] = unseen) -> int:
        member = member_of(name, os.fstat(data.fileno()))
        self._add(member, Padded(data, member.size, seen))
        return member.size

    def tree(self, name: str, root: Path) -> int:
        """Adds a directory with its files, directories and inner links. Returns the number of entries that are left
        out.

        A job wrote the directory. An entry that vanishes meanwhile is left out and is not an error, because a job may
        be deleted.
        """
        return self._below(name, root, ())

    def _below(self, name: str, root: Path, above: Parts) -> int:
        left_out = 0
        with suppress(FileNotFoundError):
            with nofollow.directory(root, above, listing=True) as opened:
                entries = sorted(os.listdir(opened))
            for entry in entries:
                with suppress(FileNotFoundError):
                    left_out += self._entry(name, root, (*above, entry))
        return left_out

    def _entry(self, name: str, root: Path, parts: Parts) -> int:
        named = f"{name}/{'/'.join(parts)}"
        with nofollow.directory(root, parts[:-1]) as parent:
            status = os.lstat(parts[-1], dir_fd=parent)
            if stat.S_ISREG(status.st_mode):
                with nofollow.open_at(parent, parts[-1]) as data:
                    self._file(named, data)
                return 0
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(parts[-1], dir_fd=parent)
                if not nofollow.leads_within(root, parts, target):
                    return 1
                self._add(member_of(named, status, target))
                return 0
        if not stat.S_ISDIR(status.st_mode):
            return 1
        self._add(member_of(named, status))
        return self._below(name, root, parts)

    def end(self) -> None:
        """Writes the last member, which makes the archive complete."""
        self._add_json(END, {"members": self._digest.members, "sha256": self._digest.value()})

    def _add_json(self, name: str, content: JsonObject) -> None:
        data = json.dumps(content, indent=2).encode()
        member = tarfile.TarInfo(name)
        member.size = len(data)
        self._add(member, io.BytesIO(data))

    def _add(self, member: tarfile.TarInfo, data: Any = None) -> None:
        self._digest.begin(member)
        self._tar.addfile(member, None if data is None else _Digested(data, self._digest))
        # tarfile keeps the members it has written, so memory would grow with the number of files.
        self._tar.members = []  # type: ignore[attr-defined]  # typeshed leaves it out


@contextmanager
def writing(out: BinaryIO, head: JsonObject, *, compressed: bool) -> Iterator[Writer]:
    """Writes an archive. It is complete if the block raises nothing."""
    with ExitStack() as stack:
        stream = stack.enter_context(gzip.GzipFile("", "wb", COMPRESS_LEVEL, out)) if compressed else out
        tar = stack.enter_context(tarfile.open(fileobj=stream, mode="w|", bufsize=CHUNK))
        writer = Writer(tar, head)
        yield writer
        writer.end()


class Member:
    """The reader's current member."""

    def __init__(self, info: tarfile.TarInfo, data: "BinaryIO | None", digest: "_Digest") -> None:
        self.name = info.name
        self.info = info
        self._data = data
        self._digest = digest

    def read(self, size: int = CHUNK) -> bytes:
        """Returns the next bytes, none at the end. Raises ArchiveDamaged."""
        with as_damage():
            chunk = b"" if self._data is None else self._data.read(size)
        self._digest.update(chunk)
        return chunk

    def chunks(self) -> Iterator[bytes]:
        """Yields the content in pieces. Raises ArchiveDamaged."""
        while chunk := self.read():
            yield chunk

    def json(self) -> JsonObject:
        """Returns the content as JSON. Raises ArchiveDamaged."""
        if self.info.size > _MAX_JSON:
            raise ArchiveDamaged(f"{self.name} is too long")
        try:
            content = json.loads(b"".join(self.chunks()))
        except ValueError as error:
            raise ArchiveDamaged(f"{self.name} is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise ArchiveDamaged(f"{self.name} is not a JSON object")
        return content


def read_archive(source: BinaryIO) -> Iterator[Member]:
    """Yields the members before the end. Each must be read before the next one. Raises ArchiveDamaged, also after the
    last.
    """
    with as_damage():
        digest, reader = _Digest(), extraction.Reader(_unpacked(source))
        with tarfile.open(fileobj=reader, mode="r:") as tar:  # type: ignore[call-overload]
            while (info := tar.next()) is not None:
                tar.members = []
                extraction.size_of(info)
                reader.at_content(True)
                if info.name == END:
                    end = Member(info, _data(tar, info), _Digest()).json()
                    reader.at_content(False)
                    _check_end(end, digest, tar)
                    return
                digest.begin(info)
                member = Member(info, _data(tar, info), digest)
                yield member
                for _ in member.chunks():
                    pass
                reader.at_content(False)
    raise ArchiveDamaged("the archive ends too early")


def _unpacked(source: BinaryIO) -> extraction.Stream:
    """Returns the stream without its compression, which its first bytes tell."""
    begin = source.read(6)
    source.seek(0)
    for magic, opened in _COMPRESSIONS.items():
        if begin.startswith(magic):
            return opened(source)
    return source


class _Digest:
    """The digest of names, kinds and bytes of members."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.members = 0

    def begin(self, member: tarfile.TarInfo) -> None:
        self.members += 1
        what = [member.name, member.type.decode("latin-1"), member.linkname, member.size if member.isreg() else 0]
        self._sha256.update(json.dumps(what).encode())

    def update(self, data: bytes) -> None:
        self._sha256.update(data)

    def value(self) -> str:
        return self._sha256.hexdigest()


class _Digested:
    """The stream from which tarfile reads. Its bytes are digested."""

    def __init__(self, data: Any, digest: _Digest) -> None:
        self._data, self._digest = data, digest

    def read(self, size: int = -1, /) -> bytes:
        chunk: bytes = self._data.read(size)
        self._digest.update(chunk)
        return chunk


def _data(tar: tarfile.TarFile, info: tarfile.TarInfo) -> "BinaryIO | None":
    return tar.extractfile(info) if info.isreg() else None  # type: ignore[return-value]  # IO[bytes] is enough


def _check_end(end: JsonObject, digest: _Digest, tar: tarfile.TarFile) -> None:
    if tar.next() is not None:
        raise ArchiveDamaged("the archive continues after its end")
    if (end.get("members"), end.get("sha256")) != (digest.members, digest.value()):
        raise ArchiveDamaged("the archive's content is not what was exported: its SHA-256 differs")


@contextmanager
def as_damage() -> Iterator[None]:
    try:
        yield
    except extraction.TooLarge as error:
        raise ArchiveDamaged(f"the archive is larger than the disk has room for: {error}") from error
    except (tarfile.TarError, RecursionError, OverflowError, ValueError, EOFError, zlib.error) as error:
        raise ArchiveDamaged(f"the archive cannot be read: {error}") from error
    except (lzma.LZMAError, gzip.BadGzipFile) as error:
        raise ArchiveDamaged(f"the archive cannot be read: {error}") from error
