"""S3's errors: codes, statuses and texts from AWS's table of error responses (S3 API reference), and the errors of the
store.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sagelet_api.protocol.aws_errors import AwsError, InternalFailure, cut
from sagelet_engine.base.errors import SageletError
from sagelet_engine.s3 import errors as store


class NotModified(Exception):
    """The reader already has the object as it is. `members`: further members of the answer."""

    def __init__(self, members: Mapping[str, Any]) -> None:
        super().__init__("304 Not Modified")
        self.members = members


class S3Error(AwsError):
    """An error of S3. `details` become elements of their own beside Code and Message."""

    def __init__(self, code: str, status: int, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = {name: cut(str(value)) for name, value in details.items()}


def invalid_argument(name: str, value: object, message: str) -> S3Error:
    return S3Error("InvalidArgument", 400, message, ArgumentName=name, ArgumentValue=value)


def invalid_request(message: str) -> S3Error:
    return S3Error("InvalidRequest", 400, message)


def malformed_xml() -> S3Error:
    return S3Error(
        "MalformedXML",
        400,
        "The XML you provided was not well-formed or did not validate against our published schema",
    )


def precondition_failed(condition: str) -> S3Error:
    message = "At least one of the pre-conditions you specified did not hold"
    return S3Error("PreconditionFailed", 412, message, Condition=condition)


def no_such_bucket(bucket: str) -> S3Error:
    return S3Error("NoSuchBucket", 404, "The specified bucket does not exist", BucketName=bucket)


def no_such_key(key: str) -> S3Error:
    return S3Error("NoSuchKey", 404, "The specified key does not exist.", Key=key)


def no_such_upload(upload_id: str) -> S3Error:
    message = (
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or "
        "completed."
    )
    return S3Error("NoSuchUpload", 404, message, UploadId=upload_id)


def access_denied(message: str = "Access Denied") -> S3Error:
    return S3Error("AccessDenied", 403, message)


def method_not_allowed() -> S3Error:
    return S3Error("MethodNotAllowed", 405, "The specified method is not allowed against this resource.")


def conflicting(names: Iterable[str]) -> S3Error:
    """Returns the error for two subresources: the request is for two operations."""
    return S3Error("InvalidArgument", 400, f"Conflicting query string parameters: {', '.join(sorted(names))}")


def not_implemented(message: str) -> S3Error:
    """Returns an error of status 501, which SDKs do not repeat."""
    return S3Error("NotImplemented", 501, message)


def header_not_implemented(name: str) -> S3Error:
    """Returns the error for a header that S3 itself ignores here."""
    return not_implemented(f"A header you provided implies functionality that is not implemented: {name}")


def bad_digest(name: str) -> S3Error:
    if name == "Content-MD5":
        return S3Error("BadDigest", 400, "The Content-MD5 you specified did not match what we received.")
    return S3Error("BadDigest", 400, f"The {name} you specified did not match the calculated checksum.")


def _part_too_small(error: store.PartTooSmall) -> S3Error:
    return S3Error(
        "EntityTooSmall",
        400,
        "Your proposed upload is smaller than the minimum allowed size",
        ProposedSize=error.size,
        MinSizeAllowed=5 * 1024 * 1024,
        PartNumber=error.number,
        ETag=error.etag,
    )


_TRANSLATIONS: dict[type[SageletError], Callable[..., AwsError]] = {
    store.NoSuchBucket: lambda error: no_such_bucket(error.bucket),
    store.NoSuchKey: lambda error: no_such_key(error.key),
    store.NoSuchUpload: lambda error: no_such_upload(str(error)),
    store.InvalidPart: lambda error: S3Error("InvalidPart", 400, str(error)),
    store.PartTooSmall: _part_too_small,
    store.WrongWhole: lambda error: bad_digest(error.name) if error.name != "size" else invalid_request(str(error)),
    store.UnknownChecksum: lambda error: invalid_request(str(error)),
    # Clients take a status above 500 for a passing failure. A full disk or a lost file does not pass.
    store.DiskFull: lambda error: InternalFailure(str(error)),
    store.DamagedObject: lambda error: InternalFailure(str(error)),
}


def translated(error: SageletError) -> AwsError | None:
    """Returns S3's error for an error of the store, or None for an error that S3 does not have."""
    translate = _TRANSLATIONS.get(type(error))
    return None if translate is None else translate(error)
