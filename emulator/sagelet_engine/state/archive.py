"""The format of an export: a tar file, written and read as a stream.

    sagelet-export.json        version of the format, of sagelet, of the databases' schemas: the first member
    sagelet.db                 jobs, logs, metrics
    s3/catalog.db              buckets, objects, multipart uploads under way
    s3/files/FILE_ID           their bytes, by the names that the catalogue has for them
    jobs/..., warm-pools/...   directories of ended jobs, caches of warm pools
    sagelet-export-end.json    number of members before it, and the SHA-256 of all of them: the last member

The digest goes over names, kinds and bytes, so a cut, a changed and a mixed-up archive are all found.
"""

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

from sagelet_engine.data.tarballs import COMPRESS_LEVEL
from sagelet_engine.errors import SageletError

FORMAT = 1
HEAD = "sagelet-export.json"
END = "sagelet-export-end.json"
DATABASE = "sagelet.db"
CATALOG = "s3/catalog.db"
FILES = "s3/files/"
#: Directories of a data directory that travel as they are.
TREES = ("jobs", "warm-pools")
CHUNK = 1024 * 1024
_MAX_JSON = 1024 * 1024


def _unseen(_data: bytes) -> None:
    """Nobody looks at a file's bytes."""


class ArchiveDamaged(SageletError):
    """The archive is cut or changed, or is no export of sagelet's."""


class Writer:
    """Writes members. Raises OSError."""

    def __init__(self, tar: tarfile.TarFile, head: dict[str, Any]) -> None:
        self._tar = tar
        self._digest = _Digest()
        self._add_json(HEAD, {"format": FORMAT, **head})

    def file(self, name: str, path: Path, seen: Callable[[bytes], None] = _unseen) -> int:
        """Adds a file as long as it is now, whatever becomes of it meanwhile; returns its size.

        `seen` is called with all of its bytes.
        """
        with path.open("rb") as data:
            member = _member(name, os.fstat(data.fileno()))
            self._add(member, _Padded(data, member.size, seen))
        return member.size

    def tree(self, name: str, root: Path) -> int:
        """Adds a directory with files, directories and links within it; returns how many entries are left out.

        What goes away meanwhile is not there, and no error: a job may be deleted.
        """
        left_out = 0
        with suppress(FileNotFoundError):
            for entry in sorted(os.listdir(root)):
                with suppress(FileNotFoundError):
                    left_out += self._entry(f"{name}/{entry}", root / entry)
        return left_out

    def _entry(self, name: str, path: Path) -> int:
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            self._add(_member(name, status))
            return self.tree(name, path)
        if stat.S_ISREG(status.st_mode):
            self.file(name, path)
            return 0
        if stat.S_ISLNK(status.st_mode) and leads_within(name, target := os.readlink(path)):
            self._add(_member(name, status, target))
            return 0
        return 1

    def end(self) -> None:
        """What makes the archive whole."""
        self._add_json(END, {"members": self._digest.members, "sha256": self._digest.value()})

    def _add_json(self, name: str, content: dict[str, Any]) -> None:
        data = json.dumps(content, indent=2).encode()
        member = tarfile.TarInfo(name)
        member.size = len(data)
        self._add(member, io.BytesIO(data))

    def _add(self, member: tarfile.TarInfo, data: Any = None) -> None:
        self._digest.begin(member)
        self._tar.addfile(member, None if data is None else _Digested(data, self._digest))
        # tarfile keeps what it wrote, which would grow with the number of files.
        self._tar.members = []  # type: ignore[attr-defined]  # typeshed leaves it out


@contextmanager
def writing(out: BinaryIO, head: dict[str, Any], *, compressed: bool) -> Iterator[Writer]:
    """An archive that is whole when the block ends well."""
    with ExitStack() as stack:
        stream = stack.enter_context(gzip.GzipFile("", "wb", COMPRESS_LEVEL, out)) if compressed else out
        tar = stack.enter_context(tarfile.open(fileobj=stream, mode="w|", bufsize=CHUNK))
        writer = Writer(tar, head)
        yield writer
        writer.end()


class Member:
    """One member while it is the reader's current one."""

    def __init__(self, info: tarfile.TarInfo, data: "BinaryIO | None", digest: "_Digest") -> None:
        self.name = info.name
        self.info = info
        self._data = data
        self._digest = digest

    def chunks(self) -> Iterator[bytes]:
        """Raises ArchiveDamaged."""
        while self._data is not None:
            with _as_damage():
                chunk = self._data.read(CHUNK)
            if not chunk:
                return
            self._digest.update(chunk)
            yield chunk

    def json(self) -> dict[str, Any]:
        """Raises ArchiveDamaged."""
        if self.info.size > _MAX_JSON:
            raise ArchiveDamaged(f"{self.name} is too long")
        try:
            content = json.loads(b"".join(self.chunks()))
        except ValueError as error:
            raise ArchiveDamaged(f"{self.name} is no JSON: {error}") from error
        if not isinstance(content, dict):
            raise ArchiveDamaged(f"{self.name} is no JSON object")
        return content


def read_archive(source: BinaryIO) -> Iterator[Member]:
    """The members before the end, each to be read before the next. Raises ArchiveDamaged, also behind the last."""
    with _as_damage():
        digest = _Digest()
        with tarfile.open(fileobj=source, mode="r|*", bufsize=CHUNK) as tar:
            while (info := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]
                if info.name == END:
                    _check_end(Member(info, _data(tar, info), _Digest()).json(), digest, tar)
                    return
                digest.begin(info)
                member = Member(info, _data(tar, info), digest)
                yield member
                for _ in member.chunks():
                    pass
    raise ArchiveDamaged("the archive ends too early")


def leads_within(name: str, target: str) -> bool:
    """Whether a link NAME of a tree, `jobs/...`, points to something in the same tree, as far as names say."""
    if target.startswith("/") or "\0" in target:
        return False
    depth = name.count("/") - 1
    for part in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return False
    return True


class _Digest:
    """Over names, kinds and bytes of members."""

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
    """What tarfile reads a member from."""

    def __init__(self, data: Any, digest: _Digest) -> None:
        self._data, self._digest = data, digest

    def read(self, size: int = -1, /) -> bytes:
        chunk: bytes = self._data.read(size)
        self._digest.update(chunk)
        return chunk


class _Padded:
    """A file that others may cut meanwhile, with zeros up to the size that was announced."""

    def __init__(self, data: BinaryIO, size: int, seen: "Callable[[bytes], None]") -> None:
        self._data, self._left, self._seen = data, size, seen

    def read(self, size: int) -> bytes:
        wanted = min(size, self._left)
        chunk = self._data.read(wanted)
        self._left -= wanted
        self._seen(chunk)
        return chunk.ljust(wanted, b"\0")


def _member(name: str, status: os.stat_result, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime, member.linkname = stat.S_IMODE(status.st_mode), int(status.st_mtime), target
    if stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        member.type = tarfile.SYMTYPE
    else:
        member.size = status.st_size
    return member


def _data(tar: tarfile.TarFile, info: tarfile.TarInfo) -> "BinaryIO | None":
    return tar.extractfile(info) if info.isreg() else None  # type: ignore[return-value]  # IO[bytes] is enough


def _check_end(end: dict[str, Any], digest: _Digest, tar: tarfile.TarFile) -> None:
    if tar.next() is not None:
        raise ArchiveDamaged("the archive goes on behind its end")
    if (end.get("members"), end.get("sha256")) != (digest.members, digest.value()):
        raise ArchiveDamaged("the archive's content is not what was exported: its SHA-256 differs")


@contextmanager
def _as_damage() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, UnicodeError) as error:
        raise ArchiveDamaged(f"the archive cannot be read: {error}") from error
