"""The errors of the object store. The API turns them into S3's error codes."""

from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.objects import ObjectDamaged, ObjectNotFound


class NoSuchBucket(ObjectNotFound):
    """No bucket has this name."""

    def __init__(self, bucket: str) -> None:
        super().__init__(f"The bucket {bucket} does not exist")
        self.bucket = bucket


class NoSuchKey(ObjectNotFound):
    """The bucket has no such object."""

    def __init__(self, bucket: str, key: str) -> None:
        super().__init__(f"s3://{bucket}/{key} does not exist")
        self.key = key


class BucketExists(SageletError):
    """The name is taken; names of buckets are unique over all accounts."""

    def __init__(self, bucket: str, account: str, region: str) -> None:
        super().__init__(f"The bucket {bucket} exists already and belongs to the account {account}")
        self.bucket = bucket
        self.account = account
        self.region = region


class BucketNotEmpty(SageletError):
    """A bucket with objects cannot be deleted."""


class NoSuchUpload(SageletError):
    """The multipart upload does not exist: it was completed or aborted, or never began."""


class InvalidPart(SageletError):
    """CompleteMultipartUpload names a part that is not there, or not with that ETag or checksum."""


class PartTooSmall(SageletError):
    """A part other than the last is smaller than 5 MiB."""

    def __init__(self, number: int, size: int, etag: str) -> None:
        super().__init__(f"Part {number} has {size} bytes")
        self.number, self.size, self.etag = number, size, etag


class WrongWhole(SageletError):
    """The checksum or the size that CompleteMultipartUpload gives for the whole is not that of the parts."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The {name} of the whole object is not that of its parts")
        self.name = name


class UnknownChecksum(SageletError):
    """A checksum algorithm that this store does not compute."""


class DiskFull(SageletError):
    """There is no space left for the object. Nothing of it was kept."""


class CustomerKeyNeeded(ObjectDamaged):
    """The object came with a customer's key (SSE-C), without which nobody reads it."""

    def __init__(self, bucket: str, key: str) -> None:
        super().__init__(
            f"s3://{bucket}/{key}: The object was stored using a form of Server Side Encryption. The correct "
            "parameters must be provided to retrieve the object. (It came with a customer's key, SSE-C: no job has it.)"
        )


class DamagedObject(ObjectDamaged):
    """The file behind an object is gone or was replaced: somebody changed the data directory."""
