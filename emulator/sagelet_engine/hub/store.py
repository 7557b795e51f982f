"""The repositories of a data directory.

DATA/hub/repositories/KIND/ID.json   the record of one (records.py), replaced as a whole by a rename; the slash of an ID
                                     is %2F
DATA/hub/blobs/SHA256                the content of a file of any of them
DATA/hub/drafts/RANDOM/...           files on their way, of a command that holds a lock on the directory while it runs

So a path in a repository is never a path on this disk, and cannot lead anywhere. A server reads without a lock, because
every file is complete. A command that writes holds `.lock`. A `kill -9` at any time leaves files in `drafts`, or files
in `blobs` that belong to no repository. `collect` drops both.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

from sagelet_engine.base import nofollow
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.keys import make_own_private, make_private
from sagelet_engine.hub import records
from sagelet_engine.hub.names import Kind, UnfitName, check_new_repository_id, check_path, check_revision
from sagelet_engine.hub.records import Commit, DamagedRepository, HubFile, Repository
from sagelet_engine.s3.files import clean_disk_full

_log = logging.getLogger(__name__)

DIRECTORY = "hub"
BLOBS, DRAFTS, REPOSITORIES = "blobs", "drafts", "repositories"
LOCK = ".lock"
#: The largest record of a repository, in bytes: some 500,000 files.
MOST_RECORD = 128 * 1024 * 1024
_CHUNK = 1024 * 1024
#: Records that stay in memory, so that they are not parsed again for each file of a job.
_KEPT = 64


@dataclass(frozen=True)
class Unreadable:
    """A file that is in the place of a repository's record and cannot be read as one."""

    #: The hub's directory in the data directory.
    path: str
    why: str


@dataclass(frozen=True)
class Dropped:
    files: int
    bytes: int


class HubStore:
    """The hub of a data directory. Thread-safe. For reading, nothing needs to exist yet."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.root = data / DIRECTORY
        self._known: dict[tuple[Kind, str], tuple[tuple[int, int, int], Repository]] = {}

    # --- reading ------------------------------------------------------------------------------------------------

    def find(self, kind: Kind, repository: str) -> Repository | None:
        """Returns the record, or None if there is no such repository. `repository` must be an id. Raises
        DamagedRepository.
        """
        try:
            with nofollow.open_file(self.root, (REPOSITORIES, kind.value, _file_name(repository))) as file:
                return self._read(kind, repository, file)
        except nofollow.NoFile:
            return None

    def _read(self, kind: Kind, repository: str, file: BinaryIO) -> Repository:
        status = os.fstat(file.fileno())
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._known.get((kind, repository))
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            if status.st_size > MOST_RECORD:
                raise DamagedRepository(f"it has {status.st_size} bytes")
            found = records.decoded(file.read(MOST_RECORD))
            if (found.kind, found.id) != (kind, repository):
                raise DamagedRepository(f"it is of the {found.kind.singular} {found.id}")
        except DamagedRepository as error:
            path = self.root / REPOSITORIES / kind.value / _file_name(repository)
            raise DamagedRepository(f"{path}: {error}. Add the {kind.singular} {repository} again") from error
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[kind, repository] = (stamp, found)
        return found

    def every(self) -> Iterator[Repository | Unreadable]:
        """Yields all records in order of their kinds and ids."""
        for kind in Kind:
            for name in self._names(kind):
                repository = unquote(name.removesuffix(".json"))
                try:
                    found = self.find(kind, repository) if _file_name(repository) == name else None
                    why = "it is not the record of a repository"
                except DamagedRepository as error:
                    found, why = None, str(error)
                yield found or Unreadable(f"{DIRECTORY}/{REPOSITORIES}/{kind.value}/{name}", why)

    def repositories(self) -> list[Repository]:
        """Returns the repositories with readable records."""
        return [one for one in self.every() if isinstance(one, Repository)]

    def readable(self) -> list[Repository]:
        """Returns all repositories. Raises DamagedRepository for an unreadable record."""
        found = list(self.every())
        for one in found:
            if isinstance(one, Unreadable):
                raise DamagedRepository(one.why)
        return [one for one in found if isinstance(one, Repository)]

    def _names(self, kind: Kind) -> list[str]:
        try:
            with nofollow.directory(self.root, (REPOSITORIES, kind.value), listing=True) as opened:
                return sorted(name for name in os.listdir(opened) if not name.startswith("."))
        except nofollow.NoFile:
            return []

    def open(self, file: HubFile) -> BinaryIO:
        """Opens a file's content, which stays readable whatever happens to the repository. Raises DamagedRepository."""
        try:
            opened = nofollow.open_file(self.root, (BLOBS, file.sha256))
        except nofollow.NoFile as error:
            raise DamagedRepository(
                f"{self.root / BLOBS / file.sha256} is gone: add the repository that has it again"
            ) from error
        if os.fstat(opened.fileno()).st_size != file.size:
            opened.close()
            raise DamagedRepository(
                f"{self.root / BLOBS / file.sha256} has another size than it was added with: `sagelet check --repair` "
                "(while no server runs), then add the repository that has it again"
            )
        return opened

    def blobs(self) -> dict[str, int]:
        """Returns the sizes of all stored files, by name."""
        found: dict[str, int] = {}
        with suppress(nofollow.NoFile), nofollow.directory(self.root, (BLOBS,), listing=True) as opened:
            for name in sorted(os.listdir(opened)):
                with suppress(FileNotFoundError):
                    found[name] = os.lstat(name, dir_fd=opened).st_size
        return found

    # --- writing ------------------------------------------------------------------------------------------------

    @contextmanager
    def draft(self) -> Iterator["Draft"]:
        """Gives a draft for the files of a new revision. If it is not committed at the end, it is removed. Raises
        SettingsError, DiskFull.
        """
        make_private(self.data)
        drafts = self.root / DRAFTS
        place = drafts / uuid.uuid4().hex
        with ExitStack() as held:
            with clean_disk_full(self.data):
                make_own_private(self.root)
                make_own_private(drafts)
                # For `collect`, a draft that nobody locks is one that its command has left.
                with self.committing():
                    place.mkdir(mode=0o700)
                    held.enter_context(_locked(place, fcntl.LOCK_EX))
            held.callback(shutil.rmtree, place, ignore_errors=True)
            with clean_disk_full(self.data):
                yield Draft(self, place)

    def publish(self, draft: "Draft", kind: Kind, repository: str, revision: str, now_ms: int) -> Commit:
        """Makes a draft the content of a revision, in one step. Former commits stay. Raises UnfitName."""
        check_new_repository_id(repository)
        check_revision(revision)
        with self.committing():
            known = self._find_to_replace(kind, repository)
            commit = records.commit_of(kind, repository, draft.files, now_ms)
            commits = {} if known is None else dict(known.commits)
            if revision in commits and revision != commit.id:
                raise UnfitName(f"{revision} is a commit of {repository} already, with other files")
            commit = commits.setdefault(commit.id, commit)
            refs = {**({} if known is None else known.refs), revision: commit.id}
            self._take_blobs(draft)
            failpoint(Failpoint.AFTER_HUB_BLOBS)
            self._write(Repository(kind, repository, refs, commits))
            failpoint(Failpoint.AFTER_HUB_RECORD)
        return commit

    def remove(self, kind: Kind, repository: str) -> Dropped | None:
        """Removes a repository, and the files that no other one has. Returns None if there is no such repository."""
        with self.committing():
            path = self.root / REPOSITORIES / kind.value / _file_name(repository)
            if not path.exists():
                return None
            path.unlink()
            failpoint(Failpoint.AFTER_HUB_REMOVAL)
            return self._collect(dry_run=False)

    def forget_former(self, kind: Kind, repository: str) -> Dropped | None:
        """Drops the commits to which no revision leads any more. Returns None if there is no such repository."""
        with self.committing():
            known = self.find(kind, repository)
            if known is None:
                return None
            kept = {number: one for number, one in known.commits.items() if number in known.refs.values()}
            self._write(replace(known, commits=kept))
            return self._collect(dry_run=False)

    def collect(self, *, dry_run: bool = False) -> Dropped:
        """Drops files that belong to no repository: those of a killed command, or of a repository that was moved
        aside.
        """
        if not self.root.is_dir():
            return Dropped(0, 0)
        with self.committing():
            return self._collect(dry_run=dry_run)

    def _collect(self, *, dry_run: bool) -> Dropped:
        found = list(self.every())
        if any(isinstance(one, Unreadable) for one in found):
            # The unreadable record may name any file, so all are kept.
            return Dropped(0, 0)
        needed = {file.sha256 for file in records.files_of(one for one in found if isinstance(one, Repository))}
        gone = [(self.root / BLOBS / name, size) for name, size in self.blobs().items() if name not in needed]
        abandoned = self._abandoned()
        for place in abandoned:
            # Its command may drop it meanwhile.
            with suppress(FileNotFoundError):
                gone += [(path, path.lstat().st_size) for path in place.iterdir()]
        if not dry_run:
            for path, _ in gone:
                path.unlink(missing_ok=True)
            for place in abandoned:
                with suppress(FileNotFoundError):
                    place.rmdir()
        return Dropped(len(gone), sum(size for _, size in gone))

    def _abandoned(self) -> list[Path]:
        """Returns the drafts of commands that were killed."""
        drafts = self.root / DRAFTS
        return [place for place in sorted(drafts.iterdir()) if _is_free(place)] if drafts.is_dir() else []

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Keeps other commands from writing meanwhile."""
        with _locked(self.root / LOCK, fcntl.LOCK_EX):
            yield

    def _find_to_replace(self, kind: Kind, repository: str) -> Repository | None:
        """Returns the record, or None if it cannot be read: adding the repository again is the remedy for that."""
        try:
            return self.find(kind, repository)
        except DamagedRepository as error:
            _log.warning("%s; its former revisions are lost", error)
            return None

    def _take_blobs(self, draft: "Draft") -> None:
        blobs = self.root / BLOBS
        make_own_private(blobs)
        known = self.blobs()
        for sha256, size in {file.sha256: file.size for file in draft.files.values()}.items():
            if known.get(sha256) != size:
                (draft.place / sha256).rename(blobs / sha256)
        _flush_directory(blobs)

    def adopt(self, repositories: Iterable[Repository]) -> None:
        """Writes the records of an export, in a directory that holds nothing yet."""
        make_own_private(self.root)
        for one in repositories:
            self._write(one)

    def _write(self, repository: Repository) -> None:
        directory = self.root / REPOSITORIES / repository.kind.value
        make_own_private(directory.parent)
        make_own_private(directory)
        with clean_disk_full(self.root), nofollow.directory(directory) as opened:
            name = _file_name(repository.id)
            temporary = f".{uuid.uuid4().hex}"
            with nofollow.create_at(opened, temporary) as file:
                file.write(records.encoded(repository))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=opened, dst_dir_fd=opened)
        _flush_directory(directory)


class Draft:
    """Files on their way into a repository."""

    def __init__(self, store: HubStore, place: Path) -> None:
        self.place = place
        self.files: dict[str, HubFile] = {}
        self._store = store

    def put(self, path: str, data: BinaryIO, size: int, seen: Callable[[int], None] = lambda _: None) -> None:
        """Takes the bytes of a file. Calls `seen` for each piece. Raises UnfitName, DamagedRepository, DiskFull."""
        check_path(path)
        sha256, blob = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
        staged = self.place / f".{uuid.uuid4().hex}"
        written, before = 0, _stamp(data)
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            while chunk := data.read(_CHUNK):
                file.write(chunk)
                sha256.update(chunk)
                blob.update(chunk)
                written += len(chunk)
                seen(len(chunk))
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o400)
        if written != size or _stamp(data) != before:
            raise DamagedRepository(f"{path} changed while it was read: nothing was added. Add it again")
        self.files[path] = HubFile(size, sha256.hexdigest(), blob.hexdigest())
        staged.rename(self.place / sha256.hexdigest())

    def publish(self, kind: Kind, repository: str, revision: str, now_ms: int) -> Commit:
        """See HubStore.publish."""
        return self._store.publish(self, kind, repository, revision, now_ms)


def _stamp(data: BinaryIO) -> int | None:
    """Returns the time of a file's last change, or None if it is not a file."""
    try:
        return os.fstat(data.fileno()).st_mtime_ns
    except UnsupportedOperation:
        return None


def paths_overlap(files: Mapping[str, object]) -> str | None:
    """Returns a path that is a file and a directory at once, or None. The keys of a bucket allow such paths."""
    for path in files:
        parts = path.split("/")
        for length in range(1, len(parts)):
            if "/".join(parts[:length]) in files:
                return "/".join(parts[:length])
    return None


def place_of(repository: Repository) -> str:
    """Returns the path of a repository's record below the hub's directory."""
    return f"{REPOSITORIES}/{repository.kind.value}/{_file_name(repository.id)}"


def _file_name(repository: str) -> str:
    return f"{quote(repository, safe='')}.json"


@contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    """Holds a lock on a directory, or on a file, which is made. Raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _is_free(place: Path) -> bool:
    try:
        with _locked(place, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
    except (BlockingIOError, FileNotFoundError):
        return False


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
