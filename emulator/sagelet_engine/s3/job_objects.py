"""The store as jobs use it: the port `model/objects.py`, in process, and without a copy where possible."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedWriter, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.model.objects import ObjectInfo, ObjectNotFound
from sagelet_engine.model.principal import Authorize, Principal, object_arn
from sagelet_engine.s3.errors import NoSuchBucket
from sagelet_engine.s3.files import clean_disk_full, copy_file, link_or_copy
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.staged import CHUNK, StagedFile
from sagelet_engine.s3.store import S3Store
from sagelet_engine.s3.verifying import verify

#: The number of objects of a listing that are in memory at once.
PAGE = 1000
#: Called when a job has put or removed objects of a bucket: the event, the bucket and the objects.
Listener = Callable[[str, str, Sequence[StoredObject]], None]
#: Returns the `attributes` of an object that a job puts into a bucket.
Described = Callable[[str], Mapping[str, Any]]


def nobody(_event: str, _bucket: str, _stored: Sequence[StoredObject]) -> None:
    """A Listener that ignores every event."""


def plain(_bucket: str) -> Mapping[str, Any]:
    """A Described for bytes of which nothing else is known."""
    return {"ContentType": "binary/octet-stream"}


class JobObjectStore:
    """An ObjectStore for jobs, which asks `authorize` for each object. A bucket of another account does not exist."""

    def __init__(
        self, store: S3Store, authorize: Authorize, listener: Listener = nobody, described: Described = plain
    ) -> None:
        self._store = store
        self._authorize = authorize
        self._listener = listener
        self._described = described

    def has_bucket(self, principal: Principal, bucket: str) -> bool:
        try:
            self._check(principal, bucket)
        except NoSuchBucket:
            return False
        return True

    def make_bucket(self, principal: Principal, region: str, bucket: str) -> None:
        """Makes a bucket.

        It is not an error if the account has the bucket already. Raises BucketExists if another account has it.
        """
        if not self.has_bucket(principal, bucket):
            self._authorize(principal, "s3:CreateBucket", object_arn(bucket))
            self._store.create_bucket(bucket, principal.account, region)

    def list(self, principal: Principal, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        """Yields all objects under a prefix, in key order. Raises ObjectNotFound if the bucket does not exist."""
        self._authorize(principal, "s3:ListBucket", object_arn(bucket))
        self._check(principal, bucket)
        return self._list(bucket, prefix)

    def _list(self, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        after = b""
        while page := self._store.catalog.under(bucket, prefix, after, inclusive=False, limit=PAGE):
            for stored in page:
                yield ObjectInfo(stored.key, stored.size, stored.etag, stored.modified_ms)
            after = page[-1].key.encode()

    def size(self, principal: Principal, bucket: str, key: str) -> int | None:
        """See ObjectStore.size."""
        self._authorize(principal, "s3:GetObject", object_arn(bucket, key))
        try:
            self._check(principal, bucket)
            return self._store.head(bucket, key).size
        except ObjectNotFound:
            return None

    def download(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        """Writes one object to `target`, whose directory exists. Raises ObjectNotFound, DamagedObject."""
        self._authorize(principal, "s3:GetObject", object_arn(bucket, key))
        self._check(principal, bucket)
        stored, data = self._store.open(bucket, key)
        with data, clean_disk_full(target.parent):
            copy_file(data, target)
        _verify(stored, target)

    def link(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        """Does what `download` does, without a copy if `target` is on the store's file system. Nobody may write to
        `target`.
        """
        self._authorize(principal, "s3:GetObject", object_arn(bucket, key))
        self._check(principal, bucket)
        stored, data = self._store.open(bucket, key)
        with data, clean_disk_full(target.parent):
            link_or_copy(self._store.files.root / stored.path, data, target)
        _verify(stored, target)

    def upload(self, principal: Principal, source: Path, bucket: str, key: str) -> None:
        """Stores a file as an object, whole or not at all. Raises ObjectNotFound if the bucket does not exist."""
        with source.open("rb") as data, self.create(principal, bucket, key) as out:
            while chunk := data.read(CHUNK):
                out.write(chunk)

    @contextmanager
    def create(self, principal: Principal, bucket: str, key: str) -> Iterator[BinaryIO]:
        """See ObjectStore.create."""
        with self.batch(principal, bucket) as batch, batch.create(key) as out:
            yield out

    @contextmanager
    def batch(self, principal: Principal, bucket: str) -> Iterator["_Batch"]:
        """See ObjectStore.batch."""
        self._check(principal, bucket)
        with ExitStack() as staging:
            made = _Batch(self._store, staging, lambda key: self._may_put(principal, bucket, key))
            yield made
            failpoint(Failpoint.BEFORE_OBJECT)
            stored = self._store.put_all(bucket, made.staged, attributes=self._described(bucket))
        failpoint(Failpoint.AFTER_OBJECT)
        self._listener("Put", bucket, stored)

    def delete(self, principal: Principal, bucket: str, key: str) -> None:
        """Removes an object. A missing object, or a missing bucket, is not an error."""
        self._authorize(principal, "s3:DeleteObject", object_arn(bucket, key))
        if not self.has_bucket(principal, bucket):
            return
        self._listener("Delete", bucket, self._store.delete(bucket, [key]))

    def _may_put(self, principal: Principal, bucket: str, key: str) -> None:
        self._authorize(principal, "s3:PutObject", object_arn(bucket, key))

    def _check(self, principal: Principal, bucket: str) -> None:
        if self._store.catalog.bucket(bucket).account != principal.account:
            raise NoSuchBucket(bucket)


class _Batch:
    """Staged files that become objects together. Each is discarded if `staging` ends by an error."""

    def __init__(self, store: S3Store, staging: ExitStack, check: Callable[[str], None]) -> None:
        """`check`: raises NotAuthorized for a key that may not be written."""
        self._store = store
        self._check = check
        self._staging = staging
        #: By key, in the order in which they came.
        self.staged: dict[str, StagedFile] = {}

    @contextmanager
    def create(self, key: str) -> Iterator[BinaryIO]:
        self._check(key)
        with ExitStack() as alone:
            staged = alone.enter_context(self._store.stage())
            out = BufferedWriter(_Stream(staged), CHUNK)
            yield out
            out.flush()
            staged.seal()
            self._staging.push(alone.pop_all())
        if replaced := self.staged.pop(key, None):
            replaced.discard()
        self.staged[key] = staged


def _verify(stored: StoredObject, placed: Path) -> None:
    """Verifies the bytes that a job is about to read: the copy, not its source. Raises DamagedObject."""
    with placed.open("rb", buffering=0) as data:
        verify(stored, data)


class _Stream(RawIOBase):
    """A staged file as a file object. Closing it neither keeps nor discards anything."""

    def __init__(self, staged: StagedFile) -> None:
        self._staged = staged

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._staged.write(bytes(data))

    def tell(self) -> int:
        return self._staged.size
