"""Compiled programs that outlive their jobs: `DATA/compile-cache/ACCOUNT/IMAGE/ENTRY`.

An entry is "SAGELET1", the SHA-256 of the rest, and the rest. XLA's is a file of images/runtime, pjrt_front.c: the rest
is a serialized executable, and the name is the SHA-256 of the program, its options, XLA's flags, the platform and its
devices, and the versions of torch_xla and the plugin. Inductor's is a file of its cache directory (inductor.py). A
verdict on a plugin is one, too (plugin_verdicts.py), and so is a table of a training's speeds
(reports/known_speeds.py). The account and the image are the directories that an entry is in.

No host of a job ever sees these files, only copies. Every change is one rename or one unlink, so entries stay complete
whatever servers and commands do, and after a `kill -9` at any time. The time of an entry's last use is its file's
mtime.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from sagelet_engine.base import nofollow
from sagelet_engine.s3.files import copy_file

DIRECTORY = "compile-cache"
DRAFTS = ".drafts"
MAGIC = b"SAGELET1"
HEAD = len(MAGIC) + hashlib.sha256().digest_size
NAME = re.compile(r"[0-9a-f]{64}(\.inductor|\.trial|\.speeds)?")
#: What an entry is, by the end of its name.
KINDS = {
    "": "XLA's program",
    ".inductor": "Inductor's file",
    ".trial": "trial of a plugin",
    ".speeds": "how fast a training was",
}
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Entry:
    account: str
    image: str
    #: 64 hexadecimal digits; behind them `.inductor` for Inductor's, `.trial` for a trial's, `.speeds` for a table of
    #: speeds.
    name: str
    #: Bytes.
    size: int
    #: Last use, in ms since the epoch.
    used_ms: int

    @property
    def kind(self) -> str:
        return KINDS[os.path.splitext(self.name)[1]]


class CacheStore:
    """The entries of one data directory. They take at most `limit` bytes after each `trim`."""

    def __init__(self, data: Path, limit: int) -> None:
        self.root = data / DIRECTORY
        self.limit = limit

    def directory(self, account: str, image: str) -> Path:
        return self.root / account / quote(image, safe="")

    def entries(self) -> list[Entry]:
        """Returns all entries, the least recently used first."""
        found = []
        for path in self._files():
            with suppress(FileNotFoundError):  # Removed since it was listed.
                facts = path.stat()
                account, image = path.parent.parent.name, unquote(path.parent.name)
                found.append(Entry(account, image, path.name, facts.st_size, facts.st_mtime_ns // 1_000_000))
        return sorted(found, key=lambda entry: (entry.used_ms, entry.account, entry.image, entry.name))

    def size(self) -> int:
        """Returns the bytes of all entries."""
        return sum(entry.size for entry in self.entries())

    def publish(self, account: str, image: str, source: Path, now_ms: int, within: int = 1) -> bool:
        """Makes an entry of a file. An existing entry stays. Returns False if the file is not a whole entry.

        Only a regular file is read, through no link: a host of a job made the last `within` names of its path.
        """
        if not NAME.fullmatch(source.name):
            return False
        if (self.directory(account, image) / source.name).exists():
            return True
        return self._publish(account, image, source.name, now_ms, lambda draft: self._copy_whole(source, draft, within))

    def add(self, account: str, image: str, name: str, body: bytes, now_ms: int) -> None:
        """Makes an entry of bytes. An existing entry stays."""
        if not (self.directory(account, image) / name).exists():
            self.replace(account, image, name, body, now_ms)

    def replace(self, account: str, image: str, name: str, body: bytes, now_ms: int) -> None:
        """Makes an entry of bytes in place of an existing one, which stays if this fails."""

        def written(draft: Path) -> bool:
            with draft.open("wb") as file:
                file.write(MAGIC + hashlib.sha256(body).digest() + body)
                file.flush()
                os.fsync(file.fileno())
            return True

        self._publish(account, image, name, now_ms, written)

    def reject(self, account: str, image: str, name: str, source: Path, within: int = 1) -> None:
        """Drops an entry that a host could not load.

        `source`: the host's copy. It must have the entry's digest: another job may have made a new entry meanwhile.
        """
        with suppress(OSError), nofollow.open_path(source, within) as copy:
            with (self.directory(account, image) / name).open("rb") as kept:
                same = kept.read(HEAD) == copy.read(HEAD)
            if same:
                self.remove(account, image, name)

    def remove(self, account: str, image: str, name: str) -> None:
        """Drops an entry, if it is there."""
        (self.directory(account, image) / name).unlink(missing_ok=True)

    def use(self, account: str, image: str, name: str, now_ms: int) -> None:
        """Notes that an entry was used."""
        with suppress(FileNotFoundError):
            os.utime(self.directory(account, image) / name, ns=(now_ms * 1_000_000, now_ms * 1_000_000))

    def trim(self) -> list[Entry]:
        """Drops the least recently used entries until the rest fits the limit. Returns the dropped ones."""
        entries = self.entries()
        left = sum(entry.size for entry in entries)
        dropped = []
        for entry in entries:
            if left <= self.limit:
                break
            self._drop(entry)
            left -= entry.size
            dropped.append(entry)
        return dropped

    def clear(self, account: str | None = None, image: str | None = None) -> list[Entry]:
        """Drops all entries, or those of an account or an image. Returns them."""
        chosen = [one for one in self.entries() if account in (None, one.account) and image in (None, one.image)]
        for entry in chosen:
            self._drop(entry)
        return chosen

    def recover(self) -> None:
        """Drops the drafts of a server that was killed. Call it while no other server has the directory."""
        for draft in (self.root / DRAFTS).glob("*"):
            draft.unlink(missing_ok=True)

    def body(self, account: str, image: str, name: str) -> bytes | None:
        """Returns what is behind the digest. None if the entry is not there, or not whole."""
        try:
            data = (self.directory(account, image) / name).read_bytes()
        except FileNotFoundError:
            return None
        whole = data[: len(MAGIC)] == MAGIC and hashlib.sha256(data[HEAD:]).digest() == data[len(MAGIC) : HEAD]
        return data[HEAD:] if whole else None

    def _publish(self, account: str, image: str, name: str, now_ms: int, write: Callable[[Path], bool]) -> bool:
        target = self.directory(account, image) / name
        drafts = self.root / DRAFTS
        drafts.mkdir(parents=True, exist_ok=True)
        draft = drafts / f"{name}.{os.getpid()}"
        try:
            if not write(draft):
                return False
            os.utime(draft, ns=(now_ms * 1_000_000, now_ms * 1_000_000))
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        return True

    def _files(self) -> Iterator[Path]:
        for path in self.root.glob("*/*/*"):
            if NAME.fullmatch(path.name) and not path.parent.parent.name.startswith("."):
                yield path

    def _drop(self, entry: Entry) -> None:
        self.remove(entry.account, entry.image, entry.name)

    def _copy_whole(self, source: Path, draft: Path, within: int) -> bool:
        """Copies an entry to the disk. Returns False if it is not an entry, or larger than the whole cache may be."""
        try:
            opened = nofollow.open_path(source, within)
        except OSError:
            return False
        with opened:
            if not HEAD < os.fstat(opened.fileno()).st_size <= self.limit:
                return False
            copy_file(opened, draft)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
            # The digest is of the copy: the source may be changed meanwhile.
            if written.read(len(MAGIC)) != MAGIC:
                return False
            expected, digest = written.read(HEAD - len(MAGIC)), hashlib.sha256()
            while data := written.read(_CHUNK):
                digest.update(data)
        return digest.digest() == expected
