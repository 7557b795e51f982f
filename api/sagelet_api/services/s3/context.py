"""The context that every handler of this package gets, and its first steps."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_api.protocol.members import Parameters, Request
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import access_denied
from sagelet_api.protocol.s3.request import S3Request
from sagelet_engine.s3.multipart import Uploads
from sagelet_engine.s3.records import Bucket, StoredObject
from sagelet_engine.s3.store import S3Store


class Rest(Protocol):
    """Serves the rest of S3: configuration of buckets (moto). It forgets; the object store does not."""

    def wsgi(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]: ...

    def make_bucket(self, account: str, region: str, name: str) -> None:
        """Makes a bucket if it does not exist."""
        ...

    def drop_bucket(self, account: str, region: str, name: str) -> None:
        """Forgets a bucket and its configuration, if it exists."""
        ...

    def encryption(self, bucket: Bucket) -> Mapping[str, Any] | None:
        """Returns the rule of PutBucketEncryption in the model's form, or None if nobody has set one."""
        ...

    def set_encryption(self, bucket: Bucket, rule: Request | None) -> None: ...

    def tags(self, bucket: Bucket) -> Mapping[str, str]: ...

    def set_tags(self, bucket: Bucket, tags: Mapping[str, str]) -> None: ...

    def kms_key(self, bucket: Bucket, name: str | None) -> str:
        """Returns the ARN of a key that is named by its id, alias or ARN. None stands for S3's own key."""
        ...

    def object_event(self, bucket: Bucket, stored: StoredObject, event: str) -> None:
        """Sends an event (`Put`, `Copy`, `Delete`, ...) to the targets in the bucket's notification configuration."""
        ...


@dataclass(frozen=True)
class Context:
    request: S3Request
    store: S3Store
    uploads: Uploads
    rest: Rest

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

    def tell(self, bucket: Bucket, stored: StoredObject, event: str) -> None:
        self.rest.object_event(bucket, stored, event)


Handler = Callable[[Context, Parameters], Result]


def owner(account: str) -> dict[str, str]:
    """Returns a canonical user, as S3 writes owners: 64 hexadecimal digits."""
    return {"ID": hashlib.sha256(account.encode()).hexdigest(), "DisplayName": account}


def quoted(etag: str) -> str:
    return f'"{etag}"'
