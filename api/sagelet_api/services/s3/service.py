"""S3's API: finds the operation and its handler."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from sagelet_api.protocol.calls import Call, Environ, StartResponse
from sagelet_api.protocol.s3 import codec, request, xml
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import NotModified, method_not_allowed, not_implemented, translated
from sagelet_api.services.s3 import acls, buckets, configuration, listings, permissions, reading, uploading, writing
from sagelet_api.services.s3.context import Context, Handler, OtherServices, send_events
from sagelet_api.services.s3.description import default_encryption
from sagelet_engine.base.errors import SageletError
from sagelet_engine.s3.errors import NoSuchBucket
from sagelet_engine.s3.job_objects import plain
from sagelet_engine.s3.multipart import Uploads
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.store import S3Store

HANDLERS: dict[str, Handler] = {
    "ListBuckets": buckets.list_buckets,
    "CreateBucket": buckets.create_bucket,
    "DeleteBucket": buckets.delete_bucket,
    "HeadBucket": buckets.head_bucket,
    "GetBucketLocation": buckets.get_bucket_location,
    "GetBucketVersioning": buckets.get_bucket_versioning,
    "PutBucketVersioning": buckets.put_bucket_versioning,
    "GetBucketAcl": acls.get_bucket_acl,
    "PutBucketAcl": acls.put_bucket_acl,
    **configuration.HANDLERS,
    "ListObjects": listings.list_objects,
    "ListObjectsV2": listings.list_objects_v2,
    "ListObjectVersions": listings.list_object_versions,
    "GetObject": reading.get_object,
    "HeadObject": reading.head_object,
    "GetObjectAttributes": reading.get_object_attributes,
    "GetObjectTagging": reading.get_object_tagging,
    "PutObjectTagging": reading.put_object_tagging,
    "DeleteObjectTagging": reading.delete_object_tagging,
    "GetObjectAcl": acls.get_object_acl,
    "PutObjectAcl": acls.put_object_acl,
    "PutObject": writing.put_object,
    "CopyObject": writing.copy_object,
    "DeleteObject": writing.delete_object,
    "DeleteObjects": writing.delete_objects,
    "CreateMultipartUpload": uploading.create_multipart_upload,
    "UploadPart": uploading.upload_part,
    "UploadPartCopy": uploading.upload_part_copy,
    "CompleteMultipartUpload": uploading.complete_multipart_upload,
    "AbortMultipartUpload": uploading.abort_multipart_upload,
    "ListParts": uploading.list_parts,
    "ListMultipartUploads": uploading.list_multipart_uploads,
}


class S3Service:
    """S3's protocol (an OwnProtocol)."""

    def __init__(self, store: S3Store, others: OtherServices) -> None:
        self._store = store
        self._uploads = Uploads(store)
        self._others = others

    def described(self, bucket: str) -> Mapping[str, Any]:
        """Returns the `attributes` of an object that a job puts into a bucket."""
        return {**plain(bucket), **default_encryption(self._store, self._others, self._store.catalog.bucket(bucket))}

    def tell(self, event: str, bucket: str, stored: Sequence[StoredObject]) -> None:
        """Tells the bucket's targets that a job has put objects or removed some."""
        if stored:
            send_events(self._store, self._others, self._store.catalog.bucket(bucket), event, stored)

    def has(self, path: str) -> bool:
        """True if the bucket of a path exists."""
        try:
            self._store.catalog.bucket(path[1:].partition("/")[0])
        except NoSuchBucket:
            return False
        return True

    def name_operation(self, call: Call, environ: Environ) -> Call:
        """Returns the call with its operation. S3's routes look at the query and at headers, too. Raises S3Error."""
        environ[request.PARSED] = asked = request.parse(call, environ)
        operation = request.find_operation(call.method, asked.bucket, asked.key, asked.query, asked.headers)
        if operation is None:
            raise method_not_allowed()
        return call._replace(model="s3", operation=operation)

    def needs(self, call: Call, environ: Environ) -> Iterator[tuple[str, str]]:
        """See `permissions.needs`."""
        return permissions.needs(call.operation, environ[request.PARSED])

    def answer(self, call: Call, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Runs the operation. Raises AwsError, and the store's errors that S3 does not have."""
        try:
            return self._answer(call, environ, start_response)
        except NotModified as unchanged:
            status, headers, _ = codec.write("HeadObject", Result(unchanged.members, 304), call.request_id)
            start_response(_line(status), headers)
            return []
        except SageletError as error:
            if (known := translated(error)) is None:
                raise
            raise known from error

    def _answer(self, call: Call, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        asked: request.S3Request = environ[request.PARSED]
        operation = call.operation
        handler = HANDLERS.get(operation)
        if handler is None:
            raise not_implemented(f"s3 {operation} is not implemented by sagelet.")
        context = Context(replace(asked, call=call), self._store, self._uploads, self._others)
        result = handler(context, codec.read(operation, asked))
        return self._reply(context, operation, result, start_response)

    def _reply(
        self, context: Context, operation: str, result: Result, start_response: StartResponse
    ) -> Iterable[bytes]:
        call = context.request.call
        status, headers, body = codec.write(operation, result, call.request_id)
        if operation == "GetBucketLocation":
            body = _location(result)
        if body is None:
            start_response(_line(status), headers)
            data: Any = result.members["Body"]
            return data if isinstance(data, Iterable) else [data]
        if call.method == "HEAD":
            start_response(_line(status), _with_length(headers))
            return []
        start_response(_line(status), [*headers, ("Content-Length", str(len(body)))])
        return [body]


def _line(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}"


def _with_length(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    has = any(name.lower() == "content-length" for name, _ in headers)
    return headers if has else [*headers, ("Content-Length", "0")]


def _location(result: Result) -> bytes:
    inner = xml.text(result.members["LocationConstraint"])
    root = f'<LocationConstraint xmlns="{xml.NAMESPACE}">{inner}</LocationConstraint>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{root}'.encode()
