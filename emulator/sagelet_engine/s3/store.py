"""The object store: buckets and objects of one data directory.

How a write survives a crash: bytes go to a staged file and are flushed. Then the row, which names the staged file, is
committed. Then the file is renamed to its place. If a crash leaves a row whose file is still staged, the object is
complete and the next start renames the file. A staged file without a row was never acknowledged, and the next start
removes it. If the rename came first, a crash between the two would leave the old ETag for the new bytes. A deletion is
the reverse: the file becomes a staged one, the row is deleted, the file is deleted. A file id belongs to one object
only: a file that somebody writes to has an id that no row of an object names.

Writers commit one after another, over all processes that have the store open (`sagelet s3 import` is one). Puts that
wait for their turn share it, with one flush of the catalogue (`group_commit.py`). Readers take no lock. They read the
row, open the file and read the row again, until both rows are equal. A file that is replaced meanwhile stays whole for
those who have it open.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.database import NotFlushed, StoreUnavailable
from sagelet_engine.base.errors import DataDirectoryInUse
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.checksums import Digests
from sagelet_engine.s3.errors import BucketNotEmpty, CustomerKeyNeeded, DamagedObject, NoSuchBucket, NoSuchKey
from sagelet_engine.s3.files import Files, clean_disk_full
from sagelet_engine.s3.group_commit import Check, Commit, GroupCommit
from sagelet_engine.s3.records import Bucket, StoredObject
from sagelet_engine.s3.staged import StagedFile
from sagelet_engine.s3.upload_locks import UploadLocks

#: Objects that are deleted at once with their bucket.
_PAGE = 1000


def anything(_current: StoredObject | None) -> None:
    """A Check that lets everything pass."""


#: A Check of one key among several: the key is kept if this returns True.
Spare = Callable[[str, StoredObject | None], bool]


#: Raises for an object that may not be read.
MayRead = Callable[[StoredObject], None]


def without_key(stored: StoredObject) -> None:
    """The MayRead of a reader who has no customer's key. Raises CustomerKeyNeeded."""
    if stored.customer_key is not None:
        raise CustomerKeyNeeded(stored.bucket, stored.key)


def nothing(_key: str, _current: StoredObject | None) -> bool:
    """A Spare that keeps no key."""
    return False


class S3Store:
    """Objects as files under `root`. Every method may raise DiskFull and StoreUnavailable."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.files = Files(root)
        self.catalog = Catalog(root / ".catalog.db")
        self.clock = clock
        self.upload_locks = UploadLocks()
        self._guard = threading.Lock()
        self._commits = GroupCommit(self._guard, self._make)
        self._lock = (root / ".lock").open("a")
        self._imports = (root / ".imports").open("a")
        self._place = os.stat(root)

    def close(self) -> None:
        self.catalog.close()
        self._lock.close()
        self._imports.close()

    def recover(self) -> None:
        """Completes acknowledged writes after a crash and removes the others. Called before the first request."""
        try:
            fcntl.flock(self._imports, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # An import is under way, and its staged files must stay. The next start removes what is left.
        try:
            # An export may be reading the files now.
            with self.committing():
                self._recover()
        finally:
            fcntl.flock(self._imports, fcntl.LOCK_UN)

    def _recover(self) -> None:
        for file_id in self.files.staged_ids():
            stored = self.catalog.by_file(file_id)
            if stored is not None:
                self.files.publish(file_id, stored.path)
            elif not self.catalog.is_of_upload(file_id):
                self.files.remove_staged(file_id)

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Held by a process other than the server: a server that starts meanwhile does not remove the process's staged
        files.
        """
        fcntl.flock(self._imports, fcntl.LOCK_SH)
        try:
            self._check_there()
            yield
        finally:
            fcntl.flock(self._imports, fcntl.LOCK_UN)

    def _check_there(self) -> None:
        path = self.files.root / ".imports"
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(self._imports.fileno())):
            raise DataDirectoryInUse(f"{self.files.root} was reset or replaced just now: repeat the import")

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Lets one writer in at a time."""
        with self._guard, self._alone():
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keeps writers of other processes out. The guard keeps out those of this one."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._check_place()
            with clean_disk_full(self.files.root):
                yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _check_place(self) -> None:
        """Refuses to write into a directory that took this one's place."""
        try:
            same = os.path.samestat(os.stat(self.files.root), self._place)
        except OSError:
            same = False
        if not same:
            raise StoreUnavailable(f"{self.files.root} was moved or replaced while it was in use: start sagelet again")

    # --- buckets ----------------------------------------------------------------------------------------------

    def create_bucket(
        self, name: str, account: str, region: str, configuration: Mapping[str, JsonObject] | None = None
    ) -> Bucket:
        """Makes a bucket with documents of its configuration, by kind. Raises BucketExists."""
        bucket = Bucket(name, account, region, self.clock.now_ms())
        self.catalog.add_bucket(bucket, configuration or {})
        return bucket

    def delete_bucket(self, name: str) -> None:
        """Deletes a bucket and aborts its uploads. Raises NoSuchBucket, BucketNotEmpty."""
        with self.committing():
            if self.catalog.under(name, "", b"", inclusive=True, limit=1):
                raise BucketNotEmpty(f"The bucket {name} has objects: delete them first")
            self._remove_bucket(name)

    def _remove_bucket(self, name: str) -> None:
        files = self.catalog.remove_bucket(name)
        failpoint(Failpoint.AFTER_BUCKET_DELETE)
        for file_id in files:
            self.files.remove_staged(file_id)
        self.files.remove_bucket(name)

    def delete_buckets(self, account: str) -> int:
        """Deletes all buckets of an account with their objects, and returns their number. What still writes into one of
        them gets NoSuchBucket.
        """
        deleted = 0
        for bucket in self.catalog.buckets(account):
            with suppress(NoSuchBucket):
                while not self._delete_page(bucket.name):
                    pass
                deleted += 1
        return deleted

    def _delete_page(self, bucket: str) -> bool:
        """Deletes a page of objects, and with the last page the bucket, so that no object comes in between.

        Returns True if the bucket is deleted. Raises NoSuchBucket.
        """
        with self.committing():
            page = self.catalog.under(bucket, "", b"", inclusive=True, limit=_PAGE)
            self._delete(bucket, [stored.key for stored in page], nothing)
            if len(page) == _PAGE:
                return False
            self._remove_bucket(bucket)
        return True

    # --- objects ----------------------------------------------------------------------------------------------

    @contextmanager
    def stage(self, algorithms: Iterable[str] = ()) -> Iterator[StagedFile]:
        """Gives a file for an object's bytes. `put` makes an object of it. Raises UnknownChecksum."""
        with self.files.stage(Digests(algorithms)) as staged:
            yield staged

    def put(
        self, bucket: str, key: str, staged: StagedFile, *, check: Check = anything, **members: Any
    ) -> StoredObject:
        """Makes an object of a staged file, and replaces an existing one. `members`: further members of StoredObject.

        Raises NoSuchBucket, and what `check` raises.
        """
        staged.finish()
        members.setdefault("etag", staged.digests.md5.hex())
        members.setdefault("checksums", staged.digests.values())
        return self.commit(bucket, key, staged.file_id, staged.size, check=check, **members)

    def commit(
        self,
        bucket: str,
        key: str,
        file_id: str,
        size: int,
        *,
        check: Check = anything,
        upload_id: str | None = None,
        named: str = "",
        **members: Any,
    ) -> StoredObject:
        """Makes an object of any staged file that is on the disk. With `upload_id` it ends that upload; see
        Catalog.complete.

        Raises NoSuchBucket, NoSuchUpload, and what `check` raises.
        """
        return self._commits.run(Commit(bucket, key, file_id, size, check, upload_id, named, members))

    def _make(self, commits: Sequence[Commit]) -> None:
        """Makes objects: their rows, one flush of the catalogue, then the renames."""
        with self._alone():
            rows = self._add_rows(commits)
            if not rows:
                return
            unflushed = None
            try:
                self.catalog.flush()
            except NotFlushed as error:
                # The rows may not be on the disk yet. The old bytes must not get a new row by a crash.
                unflushed = error
            self._publish([stored for _, stored in rows])
            for one, stored in rows:
                if unflushed is None:
                    one.stored = stored
                else:
                    one.error = unflushed

    def _add_rows(self, commits: Sequence[Commit]) -> list[tuple[Commit, StoredObject]]:
        """Adds the rows of objects, and returns those that were added. A commit that fails stops no other."""
        rows = []
        taken: set[str] = set()
        for one in commits:
            try:
                with clean_disk_full(self.files.root):
                    stored = self._add_row(one, taken)
            except BaseException as error:
                one.error = error
            else:
                taken.add(stored.path)
                rows.append((one, stored))
        return rows

    def _add_row(self, commit: Commit, taken: set[str]) -> StoredObject:
        """Adds the row of one object, which a flush has to bring to the disk. `taken`: paths of objects whose files are
        not in their places yet.
        """
        self.catalog.bucket(commit.bucket)
        current = self.catalog.find(commit.bucket, commit.key)
        commit.check(current)
        path = current.path if current else self.files.choose_path(commit.bucket, commit.key, taken)
        stored = StoredObject(
            bucket=commit.bucket, key=commit.key, file_id=commit.file_id, path=path,
            size=commit.size, modified_ms=self.clock.now_ms(), **commit.members,
        )  # fmt: skip
        if commit.upload_id is None:
            self.catalog.put(stored, durable=False)
        else:
            self.catalog.complete(stored, commit.upload_id, commit.named)
        return stored

    def put_all(self, bucket: str, sealed: Mapping[str, StagedFile], **members: Any) -> list[StoredObject]:
        """Makes objects of many sealed files by their keys, with one flush and one transaction: all or none.

        Raises NoSuchBucket.
        """
        if not sealed:
            return []
        with clean_disk_full(self.files.root):
            self.files.flush_staged([one.file_id for one in sealed.values()])
        with self.committing():
            self.catalog.bucket(bucket)
            now = self.clock.now_ms()
            taken: set[str] = set()
            stored = []
            for key, one in sealed.items():
                current = self.catalog.find(bucket, key)
                path = current.path if current else self.files.choose_path(bucket, key, taken)
                taken.add(path)
                digests = one.digests
                made = StoredObject(
                    bucket=bucket, key=key, file_id=one.file_id, path=path, size=one.size,
                    etag=digests.md5.hex(), modified_ms=now, checksums=digests.values(), **members,
                )  # fmt: skip
                stored.append(made)
            try:
                self.catalog.put_all(stored)
            except NotFlushed:
                self._publish(stored)
                raise
            self._publish(stored)
        return stored

    def _publish(self, stored: Iterable[StoredObject]) -> None:
        failpoint(Failpoint.AFTER_OBJECT_ROW)
        for one in stored:
            self.files.publish(one.file_id, one.path)

    def head(self, bucket: str, key: str) -> StoredObject:
        """Returns what is known of an object. Raises NoSuchBucket, NoSuchKey."""
        stored = self.catalog.find(bucket, key)
        if stored is None:
            self.catalog.bucket(bucket)
            raise NoSuchKey(bucket, key)
        return stored

    def open(self, bucket: str, key: str, may_read: MayRead = without_key) -> tuple[StoredObject, BinaryIO]:
        """Returns an object and its opened bytes, which stay the same whatever happens to the key.

        `may_read`: raises for an object that the caller may not read. Raises NoSuchBucket, NoSuchKey, DamagedObject,
        and what `may_read` raises: CustomerKeyNeeded unless it is given.
        """
        while True:
            stored = self.head(bucket, key)
            may_read(stored)
            data = self.files.open(stored.file_id, stored.path)
            if data is None:
                return self._open_at_rest(bucket, key, may_read)
            try:
                same = self.head(bucket, key).file_id == stored.file_id
            except BaseException:
                data.close()
                raise
            if same:
                return stored, _sound(stored, data)
            data.close()

    def _open_at_rest(self, bucket: str, key: str, may_read: MayRead) -> tuple[StoredObject, BinaryIO]:
        """Opens an object while no writer moves files. A file that is missing then is gone."""
        with self.committing():
            stored = self.head(bucket, key)
            may_read(stored)
            return stored, _sound(stored, self.files.open(stored.file_id, stored.path))

    def delete(self, bucket: str, keys: Iterable[str], *, spare: Spare = nothing) -> list[StoredObject]:
        """Removes objects except those that `spare` keeps, and returns them. Raises NoSuchBucket, and what `spare`
        raises.
        """
        with self.committing():
            return self._delete(bucket, keys, spare)

    def _delete(self, bucket: str, keys: Iterable[str], spare: Spare) -> list[StoredObject]:
        self.catalog.bucket(bucket)
        there = [(key, self.catalog.find(bucket, key)) for key in dict.fromkeys(keys)]
        found = [current for key, current in there if not spare(key, current) and current is not None]
        for stored in found:
            self.files.withdraw(stored.file_id, stored.path)
        failpoint(Failpoint.BEFORE_OBJECT_DELETE)
        try:
            self.catalog.delete(bucket, [stored.key for stored in found])
        except BaseException:
            for stored in found:
                if self.catalog.by_file(stored.file_id):
                    self.files.publish(stored.file_id, stored.path)
            raise
        failpoint(Failpoint.AFTER_OBJECT_DELETE)
        for stored in found:
            self.files.remove_staged(stored.file_id)
            self.files.prune(stored.path)
        return found

    def retag(self, bucket: str, key: str, tags: Mapping[str, str]) -> None:
        """Replaces an object's tags. Raises NoSuchBucket, NoSuchKey."""
        with self.committing():
            self.catalog.put(replace(self.head(bucket, key), tags=tags))


def is_whole(stored: StoredObject, status: os.stat_result) -> bool:
    """True if a file has its object's size and, if it is a link to a user's file, its time. `verifying` checks the
    bytes.
    """
    return status.st_size == stored.size and stored.linked_ns in (None, status.st_mtime_ns)


def _sound(stored: StoredObject, data: BinaryIO | None) -> BinaryIO:
    name = f"s3://{stored.bucket}/{stored.key}"
    if data is None:
        raise DamagedObject(f"{name}: its file {stored.path} is gone from the data directory. Put the object again")
    if not is_whole(stored, os.fstat(data.fileno())):
        data.close()
        raise DamagedObject(
            f"{name}: its file {stored.path} was changed by another program. Put or import the object again"
        )
    return data
