"""Reads parameters from requests and writes results into replies, by the shapes of botocore's S3 model."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from functools import cache
from typing import Any

from sagelet_api.protocol.calls import read_body
from sagelet_api.protocol.members import Parameters, Request
from sagelet_api.protocol.s3 import xml
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument
from sagelet_api.protocol.s3.request import S3Request, service_model
from sagelet_engine.base.number_text import whole_number_in

#: The largest document: 1,000 keys of 1,024 bytes, each byte as an XML entity, take less.
MAX_XML = 16 * 1024 * 1024
#: Root elements of the documents. Clients in other languages look at them.
_ROOTS = {
    "ListBuckets": "ListAllMyBucketsResult",
    "ListObjects": "ListBucketResult",
    "ListObjectsV2": "ListBucketResult",
    "ListObjectVersions": "ListVersionsResult",
    "ListMultipartUploads": "ListMultipartUploadsResult",
    "ListParts": "ListPartsResult",
    "CreateMultipartUpload": "InitiateMultipartUploadResult",
    "CompleteMultipartUpload": "CompleteMultipartUploadResult",
    "CopyObject": "CopyObjectResult",
    "UploadPartCopy": "CopyPartResult",
    "DeleteObjects": "DeleteResult",
    "GetObjectTagging": "Tagging",
    "GetObjectAcl": "AccessControlPolicy",
    "GetObjectAttributes": "GetObjectAttributesResponse",
    "GetBucketAcl": "AccessControlPolicy",
    "GetBucketAccelerateConfiguration": "AccelerateConfiguration",
    "GetBucketCors": "CORSConfiguration",
    "GetBucketEncryption": "ServerSideEncryptionConfiguration",
    "GetBucketInventoryConfiguration": "InventoryConfiguration",
    "GetBucketLifecycleConfiguration": "LifecycleConfiguration",
    "GetBucketLogging": "BucketLoggingStatus",
    "GetBucketNotificationConfiguration": "NotificationConfiguration",
    "GetBucketOwnershipControls": "OwnershipControls",
    "GetBucketPolicyStatus": "PolicyStatus",
    "GetBucketTagging": "Tagging",
    "GetBucketVersioning": "VersioningConfiguration",
    "GetBucketWebsite": "WebsiteConfiguration",
    "GetPublicAccessBlock": "PublicAccessBlockConfiguration",
    "ListBucketInventoryConfigurations": "ListInventoryConfigurationsResult",
}


@dataclass(frozen=True)
class Result:
    """Members of an operation's output, and its status if it differs from the model's."""

    members: Mapping[str, Any] = field(default_factory=dict)
    status: int | None = None


@cache
def _operation(name: str) -> Any:
    return service_model().operation_model(name)


def read(operation: str, request: S3Request) -> Parameters:
    """Returns the parameters, without a body that is an object's bytes. Raises S3Error."""
    shape = _operation(operation).input_shape
    if shape is None:
        return {}
    values = dict(_parameters(_inputs(operation), request))
    payload = shape.serialization.get("payload")
    kind = shape.members[payload].type_name if payload else ""
    if kind in ("structure", "string"):
        body = read_body(request.environ, MAX_XML)
        if body:
            values[payload] = xml.parse(body, shape.members[payload]) if kind == "structure" else _text(body)
        elif payload in shape.required_members:
            raise missing_body()
    return values


def _text(body: bytes) -> str:
    """Returns a body that is a text, such as a bucket's policy. What is not UTF-8 in it becomes U+FFFD."""
    return body.decode("utf-8", "replace")


def missing_body() -> S3Error:
    return S3Error("MissingRequestBodyError", 400, "Request Body is empty")


def checked_document(operation: str, parameters: Request) -> Parameters:
    """Returns the document in the body of a request. Raises S3Error for values that the model does not have, and for
    a missing body.
    """
    shape = _operation(operation).input_shape
    payload = shape.serialization["payload"]
    if payload not in parameters:
        raise missing_body()
    checked: Parameters = xml.checked(shape.members[payload], parameters[payload])
    return checked


@cache
def _inputs(operation: str) -> dict[str, dict[str, tuple[str, Any]]]:
    """Returns members and their shapes by place and by their name on the wire. A request has few of them."""
    places: dict[str, dict[str, tuple[str, Any]]] = {"uri": {}, "header": {}, "headers": {}, "querystring": {}}
    for name, member in _operation(operation).input_shape.members.items():
        place, wire = member.serialization.get("location"), member.serialization.get("name", "")
        if place is not None:
            places[place][wire if place in ("uri", "querystring") else wire.lower()] = (name, member)
    return places


def _parameters(inputs: dict[str, dict[str, tuple[str, Any]]], request: S3Request) -> Iterator[tuple[str, Any]]:
    for wire, (name, _) in inputs["uri"].items():
        yield name, request.bucket if wire == "Bucket" else request.key
    for prefix, (name, _) in inputs["headers"].items():
        found = {key[len(prefix) :]: value for key, value in request.headers.items() if key.startswith(prefix)}
        if found:
            yield name, found
    for place, given in (("header", request.headers), ("querystring", request.query)):
        for wire in inputs[place].keys() & given.keys():
            name, shape = inputs[place][wire]
            value = _typed(shape, shape.serialization["name"], given[wire])
            if value is not None:
                yield name, value


def _typed(shape: Any, name: str, text: str) -> Any:
    if shape.type_name in ("integer", "long"):
        number = whole_number_in(text) if len(text) <= 18 else None
        if number is None or number < 0:
            raise invalid_argument(name, text, f"Provided {name} not an integer or within integer range")
        return number
    if shape.type_name == "boolean":
        return text.lower() == "true"
    if shape.type_name == "list":
        return [entry.strip() for entry in text.split(",")]
    if shape.type_name == "timestamp":
        try:
            return int(parsedate_to_datetime(text).timestamp() * 1000)
        except (ValueError, TypeError, OverflowError):
            return None  # RFC 9110: an unreadable date is ignored.
    return text


def write(operation: str, result: Result, request_id: str) -> tuple[int, list[tuple[str, str]], bytes | None]:
    """Returns status, headers and body. The body is None if it is an object's bytes. Times are ms since the epoch."""
    model = _operation(operation)
    status = result.status or model.http.get("responseCode", 200)
    headers = [("x-amz-request-id", request_id), ("x-amz-id-2", request_id)]
    shape = model.output_shape
    if shape is None or model.http["method"] == "HEAD":
        return status, headers + (list(_headers(shape, result.members)) if shape else []), b""
    headers += _headers(shape, result.members)
    payload = shape.serialization.get("payload")
    if payload and shape.members[payload].type_name == "blob":
        return status, headers, None
    if payload and shape.members[payload].type_name == "string":
        return status, [*headers, ("Content-Type", "application/json")], result.members[payload].encode()
    if payload:
        shape, members = shape.members[payload], result.members.get(payload) or {}
    else:
        members = result.members
    if status == 204 or not _has_body(shape):
        return status, headers, b""
    headers.append(("Content-Type", "application/xml"))
    return status, headers, xml.document(_ROOTS.get(operation, f"{operation}Result"), shape, members)


def _has_body(shape: Any) -> bool:
    return any("location" not in member.serialization for member in shape.members.values())


def _headers(shape: Any, members: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, member in shape.members.items():
        value = members.get(name)
        place = member.serialization.get("location")
        if value is None or place is None:
            continue
        wire = member.serialization["name"]
        if place == "headers":
            yield from ((f"{wire}{key}", text) for key, text in value.items())
        elif member.type_name == "timestamp":
            yield wire, value if isinstance(value, str) else formatdate(value / 1000, usegmt=True)
        elif member.type_name == "boolean":
            yield wire, "true" if value else "false"
        else:
            yield wire, str(value)
