"""The port to S3: what jobs need from it. `sagelet_engine.s3` stores the bytes; tests use a stand-in."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.principal import Principal


class ObjectNotFound(SageletError):
    """The bucket or the key does not exist."""


class ObjectDamaged(SageletError):
    """The bytes behind an object are gone, or are not those that were put."""


@dataclass(frozen=True)
class S3Uri:
    """`s3://BUCKET/KEY`. The key may be empty and may be a prefix."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, uri: str) -> "S3Uri":
        """Parses a URI. Raises ValueError if it is not an s3:// URI with a bucket."""
        scheme, separator, rest = uri.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme != "s3" or not separator or not bucket:
            raise ValueError(f"{uri!r} is not an S3 URI of the form s3://BUCKET/KEY")
        return cls(bucket, key)

    def __truediv__(self, part: str) -> "S3Uri":
        return S3Uri(self.bucket, f"{self.key.rstrip('/')}/{part}" if self.key.strip("/") else part)

    @property
    def directory(self) -> "S3Uri":
        """Returns the directory of this name: its key is empty or ends with a slash."""
        return S3Uri(self.bucket, f"{self.key.rstrip('/')}/" if self.key.strip("/") else "")

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class ObjectInfo:
    key: str
    #: Bytes.
    size: int
    #: S3's ETag without quotes: the MD5 of an object that came in one piece.
    etag: str = ""
    #: When it was written, in ms since the epoch. 0 if unknown.
    modified_ms: int = 0


class ObjectBatch(Protocol):
    """Objects that are created together."""

    def create(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Creates an object like `ObjectStore.create`. If its block fails, this object is not part of the batch."""
        ...


#: From this size on a batch is committed. More objects would save no more flushes, and more bytes take most of the time
#: anyway.
BATCH_OBJECTS, BATCH_BYTES = 1000, 64 * 1024**2


def batches(sized: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Yields names in batches. `sized` has (name, bytes)."""
    names: list[str] = []
    total = 0
    for name, size in sized:
        if names and (len(names) == BATCH_OBJECTS or total + size > BATCH_BYTES):
            yield names
            names, total = [], 0
        names.append(name)
        total += size
    if names:
        yield names


class ObjectStore(Protocol):
    """S3's bytes as one principal sees them. Methods stream, so memory does not grow with the size of an object.

    Each raises NotAuthorized for what the principal may not do: listing needs s3:ListBucket, reading s3:GetObject,
    writing s3:PutObject and deleting s3:DeleteObject.
    """

    def list(self, principal: Principal, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        """Yields all objects under a prefix, in key order. Raises ObjectNotFound if the bucket does not exist."""
        ...

    def size(self, principal: Principal, bucket: str, key: str) -> int | None:
        """Returns an object's bytes, or None if the bucket or the object does not exist. Needs s3:GetObject."""
        ...

    def download(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        """Writes one object to `target`, whose directory exists, and verifies it by its checksum.

        Raises ObjectNotFound, ObjectDamaged.
        """
        ...

    def link(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        """Does what `download` does, but without a copy if the file system allows it. Nobody may write to `target`."""
        ...

    def upload(self, principal: Principal, source: Path, bucket: str, key: str) -> None:
        """Stores a file as an object. Raises ObjectNotFound if the bucket does not exist."""
        ...

    def create(self, principal: Principal, bucket: str, key: str) -> AbstractContextManager[BinaryIO]:
        """Gives a stream (it cannot seek). Its bytes become an object only if the block raises nothing.

        Raises ObjectNotFound if the bucket does not exist.
        """
        ...

    def batch(self, principal: Principal, bucket: str) -> AbstractContextManager[ObjectBatch]:
        """Gives a batch of many small objects, which are flushed and committed together if the block raises nothing.
        Otherwise no object is made.

        Raises ObjectNotFound if the bucket does not exist.
        """
        ...

    def delete(self, principal: Principal, bucket: str, key: str) -> None:
        """Removes an object. A missing object, or a missing bucket, is not an error."""
        ...

    def make_bucket(self, principal: Principal, region: str, bucket: str) -> None:
        """Makes a bucket. It is not an error if the account has it already."""
        ...

    def has_bucket(self, principal: Principal, bucket: str) -> bool:
        """True if the principal's account has the bucket. Needs no right."""
        ...
