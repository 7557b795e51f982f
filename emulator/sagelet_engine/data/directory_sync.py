"""Copies directories of a job to S3 while its hosts run, and once more when they are down: checkpoints, and the outputs
of processing jobs with S3UploadMode Continuous.

As on AWS: files go as they are, all hosts share one prefix, and deletions of checkpoints propagate. Only files that a
host had are ever deleted; objects that others put under the prefix stay. A restart loses nothing: a ledger on the
disk, written before the objects change, says what a host had, and S3 is asked what it holds.

If two hosts write the same name, the file that was written last counts, and at the end that of the last host. A host's
deletion counts unless another host has written a file of that name. A restored copy does not count as written, because
each host has all of them.

A file is uploaded from a copy, after it has not changed between two looks and while it was copied. So a file that is
being written is not uploaded half. (A file that grows all the time is uploaded at the last look.)
"""

import errno
import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from sagelet_engine.base import nofollow
from sagelet_engine.base.errors import ClientFault, is_known
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.inner_links import Budget, InnerLinks, Parts, resolved, status_of
from sagelet_engine.base.key_names import LeftOut, Why, makes_key
from sagelet_engine.base.left_on_node import left_below
from sagelet_engine.base.volume import GIB
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.model import aws_texts
from sagelet_engine.model.acting import of_job
from sagelet_engine.model.job import Job
from sagelet_engine.model.objects import ObjectNotFound, ObjectStore, S3Uri, batches
from sagelet_engine.model.principal import NotAuthorized

log = logging.getLogger(__name__)

#: Seconds between two looks at the directory. AWS documents no interval.
PERIOD = 2.0
_CHUNK = 1024 * 1024
#: In bytes. A larger file that is mostly holes is left out.
MOST_SPARSE = 64 * 1024**3


class Stamp(NamedTuple):
    """Shows whether a file is still the one that was seen before."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True)
class SyncedDirectory:
    """A directory that each host of a job has, and its place in S3."""

    #: Returns the path below /opt/ml. Raises ClientFault for an impossible path.
    inner: Callable[[], Path]
    #: Its key is empty or ends with a slash.
    target: S3Uri
    #: Names of the notes beside /opt/ml: files that the host has written, and files that it began with.
    ledger: str
    restored: str
    #: True for checkpoints: the directory began with what S3 has, and a file that a host deletes is deleted in S3, too.
    mirrored: bool


class DirectorySync:
    """The synced directories of one attempt of a job. Does nothing for a job without any."""

    def __init__(
        self, objects: ObjectStore, job: Job, directories: JobDirectories, synced: Sequence[SyncedDirectory]
    ) -> None:
        self._guard = threading.Lock()
        self.over = threading.Event()
        self._objects = objects
        self._job = job
        self._directories = directories
        self._synced = synced

    @property
    def configured(self) -> bool:
        return bool(self._synced)

    @cached_property
    def _mirrors(self) -> "list[_Mirror]":
        """Makes the mirrors. Raises ClientFault for an impossible LocalPath, so it is called only when the job is under
        way.
        """
        return [
            _Mirror(self._objects, self._job, name, self._directories.host(name), synced)
            for synced in self._synced
            for name in self._job.hosts
        ]

    def begin(self) -> None:
        """Notes the restored files, because their deletion propagates, too. Called before the hosts start."""
        with self._guard:
            for mirror in self._mirrors:
                mirror.begin()

    def sync(self, *, final: bool = False) -> None:
        """Brings S3 up to date. `final`: the hosts are down, so every file is complete.

        Raises ClientFault if a link has taken the directory's place.
        """
        with self._guard:
            for mirror in self._mirrors:
                others = [one for one in self._mirrors if one is not mirror and one.synced is mirror.synced]
                mirror.sync(final, self.over, others)

    def warnings(self) -> list[tuple[str, str]]:
        """Returns lines for the hosts' logs, with the host: files that were left out and that no line has named yet."""
        with self._guard:
            try:
                mirrors = self._mirrors
            except ClientFault:
                # Nothing was synced. The same fault ends the job.
                return []
            return [(mirror.host_name, line) for mirror in mirrors for line in mirror.left_out.tell()]


class Syncer(threading.Thread):
    """Syncs until it is stopped. A look that fails is repeated."""

    def __init__(
        self, sync: DirectorySync, name: str, closing: threading.Event, note: Callable[[str, str], None]
    ) -> None:
        """`note` takes a line for the job's log, and a host's name or an empty text."""
        super().__init__(name=f"sync-{name}", daemon=True)
        self._sync = sync
        self._closing = closing
        self._note = note

    def run(self) -> None:
        if not self._sync.configured:
            return
        while not self._sync.over.wait(PERIOD) and not self._closing.is_set():
            try:
                self._sync.sync()
            except ClientFault as fault:
                # The last sync fails the job with this text, unless the script mends it meanwhile.
                log.warning("%s: %s", self.name, fault)
                self._note("", f"sagelet: warning: files do not reach S3: {fault}")
            except Exception as error:
                text = "%s: files did not reach S3; trying again: %s"
                log.error(text, self.name, error, exc_info=not is_known(error))
                why = f"{type(error).__name__}: {error}"
                self._note("", f"sagelet: warning: files do not reach S3 for now: {why}; sagelet tries again")

    def stop(self) -> None:
        """Stops, and returns when nothing is uploaded any more. At most one batch of files is on its way."""
        self._sync.over.set()
        self.join()
        self._sync.over.clear()


class _Mirror:
    """One host's directory and its objects."""

    def __init__(
        self, objects: ObjectStore, job: Job, host_name: str, host: HostDirectories, synced: SyncedDirectory
    ) -> None:
        self.synced = synced
        self.host_name = host_name
        self._objects = objects
        self._principal = of_job(job)
        self._host = host
        self._inner = synced.inner()
        self._target = synced.target
        self._ledger = host.root / synced.ledger
        self._restored_file = host.root / synced.restored
        self.left_out = LeftOut(f"/opt/ml/{self._inner}")
        #: Names under which scripts know the directory.
        self._names = (f"/opt/ml/{self._inner}", str(host.opt_ml / self._inner))
        self._most_linked = max(job.spec.volume_gib * GIB, GIB)
        self._seen: dict[str, Stamp] = {}
        #: What the present look leaves out, and what the look before left out.
        self._problems: dict[str, Why] = {}
        self._before: dict[str, Why] = {}
        #: Where files are that a link names, by the link's name.
        self._linked: dict[str, Parts] = {}
        #: Files that are known to be in S3. None if S3 was not asked yet.
        self._sent: dict[str, Stamp] | None = None

    def begin(self) -> None:
        restored = self._scan()
        _write_whole(self._restored_file, restored)
        self._restored = restored
        self._note(set(restored))

    @cached_property
    def _restored(self) -> dict[str, Stamp]:
        """Returns the files that came from S3, as they were when the hosts started."""
        try:
            noted = json.loads(self._restored_file.read_bytes())
        except FileNotFoundError:
            return {}
        return {name: Stamp(*stamp) for name, stamp in noted.items()}

    def wrote(self, name: str) -> bool:
        """True if the host has a file of this name that it wrote itself."""
        root = self._host.opt_ml / self._inner
        if self._host.behind_link(root):
            return False
        parts = resolved(root, PurePath(name).parts, self._names)
        status = None if parts is None else status_of(root, parts)
        return status is not None and stat.S_ISREG(status.st_mode) and Stamp.of(status) != self._restored.get(name)

    def sync(self, final: bool, over: threading.Event, others: "Sequence[_Mirror]") -> None:
        """Brings the objects up to date. Raises ClientFault if the job's role may not list, write or delete them."""
        try:
            self._sync(final, over, others)
        except NotAuthorized as error:
            raise ClientFault(aws_texts.upload_denied(self._target, str(error))) from error

    def _sync(self, final: bool, over: threading.Event, others: "Sequence[_Mirror]") -> None:
        if not self._host.opt_ml.is_dir():
            # The job did not remove this file.
            return
        files = self._scan()
        self._problems |= left_below(self._host.run, self._inner)
        self._report(final)
        # A restored file may be of another prefix, or another host may have deleted it. It must not come back.
        came = self._restored if others or self.synced.mirrored else {}
        mine = {name: stamp for name, stamp in files.items() if stamp != came.get(name)}
        if self._sent is None or final:
            self._sent = self._already_there(mine)
        sent, had = self._sent, self._noted()
        due = [
            name for name, stamp in mine.items() if sent.get(name) != stamp and (final or self._seen.get(name) == stamp)
        ]
        self._seen = files
        if not had.issuperset(due):
            self._note(had | set(due))
        for names in batches((name, files[name].size) for name in sorted(due)):
            if over.is_set() and not final:
                return
            failpoint(Failpoint.BEFORE_CHECKPOINT)
            for name in self._send(names, files):
                sent[name] = files[name]
            failpoint(Failpoint.AFTER_CHECKPOINT)
        gone = {name for name in had - files.keys() if not self._is_hidden(name)}
        self._forget(gone, sent, others)

    def _report(self, final: bool) -> None:
        """Notes what is left out, if that is so at two looks: a script may make a link before its file."""
        before, self._before = self._before, dict(self._problems)
        self.left_out.add_all({name: why for name, why in self._before.items() if final or before.get(name) == why})

    def _is_hidden(self, name: str) -> bool:
        """True if a directory on the way to a file may not be read. Then the file is not gone."""
        above = (str(parent) + "/" for parent in PurePath(name).parents)
        return self._problems.get(name) is Why.UNREADABLE or any(
            self._problems.get(one) is Why.UNREADABLE for one in above
        )

    def _forget(self, gone: set[str], sent: dict[str, Stamp], others: "Sequence[_Mirror]") -> None:
        if not gone:
            return
        for name in sorted(gone):
            if self.synced.mirrored and not any(other.wrote(name) for other in others):
                self._objects.delete(self._principal, self._target.bucket, self._target.key + name)
                failpoint(Failpoint.AFTER_CHECKPOINT_DELETE)
            sent.pop(name, None)
        self._note(self._noted() - gone)

    def _send(self, names: Sequence[str], files: Mapping[str, Stamp]) -> list[str]:
        """Uploads copies of files. Returns the names of those that existed and did not change meanwhile."""
        sent = []
        with self._objects.batch(self._principal, self._target.bucket) as batch:
            for name in names:
                with suppress(_Changed, FileNotFoundError, NotADirectoryError), self._open(name) as source:
                    with batch.create(self._target.key + name) as copy:
                        _copy_unchanged(source, copy, files[name])
                    sent.append(name)
        return sent

    def _already_there(self, files: Mapping[str, Stamp]) -> dict[str, Stamp]:
        """Returns the files whose bytes S3 already has."""
        try:
            listed = self._objects.list(self._principal, self._target.bucket, self._target.key)
            there = {found.key[len(self._target.key) :]: (found.size, found.etag) for found in listed}
        except ObjectNotFound:
            return {}
        same: dict[str, Stamp] = {}
        for name, stamp in files.items():
            size, etag = there.get(name, (-1, ""))
            with suppress(_Changed, FileNotFoundError, NotADirectoryError):
                if size == stamp.size and etag == self._digest(name):
                    same[name] = stamp
        return same

    def _digest(self, name: str) -> str:
        """Returns S3's ETag of an object that came in one piece."""
        digest = hashlib.md5(usedforsecurity=False)
        with self._open(name) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def _scan(self) -> dict[str, Stamp]:
        """Returns every file by its name within the directory, also those that links name in the same directory."""
        found: dict[str, Stamp] = {}
        links: list[Parts] = []
        self._problems, self._linked = {}, {}
        try:
            top = self._descend(self._inner)
        except FileNotFoundError:
            return {}
        try:
            for directory, below, names, place in os.fwalk(".", onerror=_unless_gone, dir_fd=top):
                # Not os.fwalk: it calls itself for each level, and a script may nest directories to any depth.
                there = [(os.path.normpath(os.path.join(directory, name)), name) for name in (*below, *names)]
                below[:] = [name for name in below if self._is_worth_a_look(os.path.join(directory, name), name, place)]
                for path, name in there:
                    with suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=place, follow_symlinks=False)
                        if stat.S_ISLNK(status.st_mode):
                            links.append(PurePath(path).parts)
                        elif not stat.S_ISDIR(status.st_mode):
                            self._take(found, path, status)
        finally:
            os.close(top)
        self._follow(links, found)
        return found

    def _take(self, found: dict[str, Stamp], path: str, status: os.stat_result) -> None:
        """Adds a file, or notes why it is left out."""
        if not stat.S_ISREG(status.st_mode):
            self._problems[path] = Why.SPECIAL
        elif _is_hole(status):
            self._problems[path] = Why.HOLES
        elif not makes_key(self._target.key + path):
            self._problems[path] = Why.KEY
        else:
            found[path] = Stamp.of(status)

    def _follow(self, links: list[Parts], found: dict[str, Stamp]) -> None:
        """Adds the files that links name, by the links' names."""
        root = self._host.opt_ml / self._inner
        known = InnerLinks(root, self._names, Budget(self._most_linked), self._problems.__setitem__)
        for linked in (one for link in links for one in known.files(link)):
            self._take(found, linked.name, linked.status)
            self._linked[linked.name] = linked.parts

    def _is_worth_a_look(self, directory: str, name: str, place: int) -> bool:
        """True if a file in a directory may make a key, and may be read. If not, the whole directory is left out."""
        path = os.path.normpath(directory)
        why = None if makes_key(f"{self._target.key}{path}/x") else Why.KEY
        if why is None and not os.access(name, os.R_OK | os.X_OK, dir_fd=place, effective_ids=True):
            why = Why.UNREADABLE if os.path.lexists(f"/proc/self/fd/{place}/{name}") else None
        if why is not None:
            self._problems[f"{path}/"] = why
        return why is None

    def _open(self, name: str) -> BinaryIO:
        parts = self._linked.get(name, PurePath(name).parts)
        top = self._descend(self._inner)
        try:
            return nofollow.open_file(top, parts)
        except PermissionError as error:
            self._problems[name] = Why.UNREADABLE
            self.left_out.add(name, Why.UNREADABLE)
            raise _Changed from error
        finally:
            os.close(top)

    def _descend(self, inner: Path) -> int:
        """Opens a directory within /opt/ml without following a link, because the job may put one anywhere at any
        time.
        """
        try:
            return nofollow.open_directory(self._host.opt_ml, inner)
        except nofollow.NoFile as error:
            if error.errno != errno.ENOTDIR:
                raise
            raise ClientFault(
                f"/opt/ml/{self._inner} is a symbolic link or a file: make it a directory, sagelet does not follow it"
            ) from error

    def _noted(self) -> set[str]:
        try:
            return set(json.loads(self._ledger.read_bytes()))
        except FileNotFoundError:
            return set()

    def _note(self, names: set[str]) -> None:
        _write_whole(self._ledger, sorted(names))


def _write_whole(path: Path, content: object) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content), encoding="ascii")
    fresh.replace(path)


class _Changed(Exception):
    """A file is not the one that was seen before."""


def _copy_unchanged(source: BinaryIO, target: BinaryIO, stamp: Stamp) -> None:
    """Copies a file. Raises _Changed if it is not the one that was seen before."""
    if Stamp.of(os.fstat(source.fileno())) != stamp:
        raise _Changed
    copy_whole(source, target, stamp.size)
    if Stamp.of(os.fstat(source.fileno())) != stamp:
        raise _Changed


def copy_whole(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copies a file up to the size that it had. A file may grow faster than it is copied."""
    while size > 0 and (chunk := source.read(min(size, _CHUNK))):
        target.write(chunk)
        size -= len(chunk)


def _is_hole(status: os.stat_result) -> bool:
    """True if a file has holes that no disk could hold. Such a file is not synced, because copying it would never
    end.
    """
    return status.st_size > MOST_SPARSE and status.st_blocks * 512 < status.st_size // 2


def _unless_gone(error: OSError) -> None:
    """Raises an error unless the directory is gone. A directory that fails must not look like one whose files were
    deleted.
    """
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error
