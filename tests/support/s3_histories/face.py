"""S3's own handlers over a real store, called without HTTP and XML. They give what a server's clients get."""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sagelet_api.protocol.calls import Call, Protocol
from sagelet_api.protocol.s3.errors import translated
from sagelet_api.protocol.s3.request import S3Request
from sagelet_api.services.s3.context import Context
from sagelet_api.services.s3.service import HANDLERS
from sagelet_engine.base.errors import SageletError
from sagelet_engine.s3.multipart import Uploads
from sagelet_engine.s3.records import Bucket, StoredObject
from sagelet_engine.s3.store import S3Store
from support.histories.schedule import Schedule

ACCOUNT, REGION = "123456789012", "us-east-1"
#: Bytes that arrive at once. A body comes in pieces, and anything may happen between two of them.
PIECE = 5


class Body(io.RawIOBase):
    def __init__(self, schedule: Schedule, data: bytes) -> None:
        super().__init__()
        self._schedule = schedule
        self._left = data

    def readinto(self, buffer: Any) -> int:
        self._schedule.step()
        piece = self._left[: min(PIECE, len(buffer))]
        self._left = self._left[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)


class _Others:
    """Stands in for AWS's other services."""

    def kms_key(self, bucket: Bucket, name: str | None) -> str:
        raise NotImplementedError

    def object_event(self, bucket: Bucket, notification: Mapping[str, Any], stored: StoredObject, event: str) -> None:
        raise NotImplementedError

    def test_event(self, bucket: Bucket, notification: Mapping[str, Any]) -> None:
        raise NotImplementedError


@contextmanager
def _s3_errors() -> Iterator[None]:
    """Turns the store's errors into S3's, as S3's service does."""
    try:
        yield
    except SageletError as error:
        if (known := translated(error)) is None:
            raise
        raise known from error


class Face:
    def __init__(self, schedule: Schedule, store: S3Store) -> None:
        self._schedule = schedule
        self.store = store
        self._uploads = Uploads(store)

    def call(
        self,
        operation: str,
        bucket: str,
        key: str = "",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Mapping[str, Any]:
        """Calls an operation. Returns the members of the answer. Raises AwsError."""
        sent = {"content-length": str(len(body)), "host": "localhost", **(headers or {})}
        call = Call("s3", operation, ACCOUNT, REGION, "", "", {}, sent, "request", Protocol.S3, None)
        request = S3Request(call, {"wsgi.input": Body(self._schedule, body)}, bucket, key, {}, sent)
        context = Context(request, self.store, self._uploads, _Others())
        given = {name: value for name, value in parameters.items() if value is not None}
        with _s3_errors():
            return HANDLERS[operation](context, given).members

    def abort_as_garbage(self, bucket: str, key: str, upload_id: str) -> None:
        """Aborts an upload as `sagelet gc` does, without the handlers. Raises AwsError."""
        with _s3_errors():
            self.store.catalog.bucket(bucket)
            Uploads(self.store).abort(self.store.catalog.upload(bucket, key, upload_id))
