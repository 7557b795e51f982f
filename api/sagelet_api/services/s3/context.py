"""The context that every handler of this package gets, and its first steps."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from sagelet_api.protocol.members import Parameters, Request
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import access_denied
from sagelet_api.protocol.s3.request import S3Request
from sagelet_engine.s3.multipart import Uploads
from sagelet_engine.s3.records import Bucket, StoredObject
from sagelet_engine.s3.store import S3Store

#: Kinds of a bucket's configuration that its objects depend on.
ENCRYPTION, NOTIFICATION = "encryption", "notification"


class OtherServices(Protocol):
    """What S3 needs of AWS's other services: keys of KMS, and the targets of events."""

    def kms_key(self, bucket: Bucket, name: str | None) -> str:
        """Returns the ARN of a KMS key. `name` is its id, alias or ARN; None is the AWS managed key `aws/s3`."""
        ...

    def object_event(self, bucket: Bucket, notification: Request, stored: StoredObject, event: str) -> None:
        """Sends an event (`Put`, `Copy`, `Delete`, ...) to the targets in the bucket's notification configuration."""
        ...

    def test_event(self, bucket: Bucket, notification: Request) -> None:
        """Tells the queues and topics of a new notification configuration that they are in it."""
        ...


@dataclass(frozen=True)
class Context:
    request: S3Request
    store: S3Store
    uploads: Uploads
    others: OtherServices

    @property
    def account(self) -> str:
        return self.request.call.account

    def bucket(self, parameters: Request, name: str | None = None) -> Bucket:
        """Returns the bucket that the request names, or the bucket `name`. Raises NoSuchBucket, and AccessDenied for a
        bucket of another account.
        """
        bucket = self.store.catalog.bucket(name or self.request.bucket)
        expected = parameters.get("ExpectedBucketOwner" if name is None else "ExpectedSourceBucketOwner")
        if bucket.account != self.account or expected not in (None, bucket.account):
            raise access_denied()
        return bucket

    def tell(self, bucket: Bucket, event: str, *stored: StoredObject) -> None:
        send_events(self.store, self.others, bucket, event, stored)


Handler = Callable[[Context, Parameters], Result]


def send_events(
    store: S3Store, others: OtherServices, bucket: Bucket, event: str, stored: Iterable[StoredObject]
) -> None:
    """Sends an event of each object if their bucket has a notification configuration."""
    if notification := store.catalog.configuration(bucket.name, NOTIFICATION).get(""):
        for one in stored:
            others.object_event(bucket, notification, one, event)


def owner(account: str) -> dict[str, str]:
    """Returns a canonical user, as S3 writes owners: 64 hexadecimal digits."""
    return {"ID": hashlib.sha256(account.encode()).hexdigest(), "DisplayName": account}


def quoted(etag: str) -> str:
    return f'"{etag}"'
