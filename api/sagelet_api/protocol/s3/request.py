"""One S3 request: its bucket and key, its query, and its headers as they were sent.

The routes of botocore's S3 model tell the operation: method, path, and what the query must hold.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_to_bytes, urlsplit

from sagelet_api.protocol import botocore_parts
from sagelet_api.protocol.calls import Call, Environ
from sagelet_api.protocol.header_rules import LOCAL_NAMES, host_name, is_name, is_value
from sagelet_api.protocol.s3.errors import S3Error, access_denied, conflicting, invalid_argument
from sagelet_engine.base.number_text import whole_number_in
from sagelet_engine.s3.checksums import ALGORITHMS

#: Requests of another kind of bucket, and of a Lambda function in front of one.
_LEFT_OUT = ("ListDirectoryBuckets", "CreateSession", "WriteGetObjectResponse")
#: The model has two generations of these. The older ones have the same routes.
_OLD = ("GetBucketLifecycle", "PutBucketLifecycle", "GetBucketNotification", "PutBucketNotification")


@dataclass(frozen=True)
class Route:
    operation: str
    method: str
    #: 0: the service, 1: a bucket, 2: an object.
    depth: int
    #: Parameters that the query must have, with their values if the route requires them.
    query: tuple[tuple[str, str | None], ...]
    #: Headers that the request must have.
    headers: tuple[str, ...]

    def fits(self, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        return all(name in query and value in (None, query[name]) for name, value in self.query) and all(
            name in headers for name in self.headers
        )

    @property
    def weight(self) -> int:
        return len(self.query) + len(self.headers)


@cache
def service_model() -> Any:
    """Returns botocore's model of S3. The first request loads it (0.1 s)."""
    return botocore_parts.service_model("s3")


@cache
def routes() -> dict[tuple[str, int], list[Route]]:
    """Returns the routes by method and depth, those with the most conditions first."""
    table: dict[tuple[str, int], list[Route]] = {}
    for name in service_model().operation_names:
        if name not in _LEFT_OUT + _OLD:
            made = _route(service_model().operation_model(name))
            table.setdefault((made.method, made.depth), []).append(made)
    for entries in table.values():
        entries.sort(key=lambda route: -route.weight)
    return table


def find_operation(
    method: str, bucket: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]
) -> str | None:
    """Returns the operation's name, or None if S3 has none for this. Raises S3Error for a request that names two."""
    depth = 2 if key else 1 if bucket else 0
    fitting = [route for route in routes().get((method, depth), ()) if route.fits(query, headers)]
    if not fitting:
        return None
    names = {name for route in fitting for name, _ in route.query}
    if not names <= {name for name, _ in fitting[0].query}:
        raise conflicting(names)
    return fitting[0].operation


@cache
def selecting() -> frozenset[str]:
    """Returns the parameters of a query that select another operation."""
    return frozenset(name for entries in routes().values() for route in entries for name, _ in route.query)


def _route(operation: Any) -> Route:
    path, _, literal = operation.http["requestUri"].partition("?")
    query: list[tuple[str, str | None]] = [
        (name, value or None) for name, value in parse_qsl(literal, keep_blank_values=True)
    ]
    shape = operation.input_shape
    required = [shape.members[name].serialization for name in shape.required_members] if shape else []
    query += [(place["name"], None) for place in required if place.get("location") == "querystring"]
    # Only this header distinguishes two operations. Without one of the other headers a request is still for the same
    # operation, and invalid.
    headers = [place["name"] for place in required if place.get("name") == "x-amz-copy-source"]
    depth = 2 if "{Key+}" in path else 1 if "{Bucket}" in path else 0
    return Route(operation.name, operation.http["method"], depth, tuple(query), tuple(headers))


#: What may precede one of the server's names: `BUCKET.`, `BUCKET.s3.`, `BUCKET.s3.us-east-1.`, or `s3.` alone.
_SERVICE = re.compile(r"(?:(?P<bucket>.+)\.)?s3(?:[.-][a-z0-9-]+)?", re.IGNORECASE)
MAX_KEY = 1024
#: S3 takes these from headers only. A presigner has no body yet: that of AWS's JavaScript SDK signs the checksum of an
#: empty one, and the holder of the URL then sends bytes (aws-sdk#480, aws-sdk-go-v2#2610).
_NOT_IN_QUERY = frozenset(
    {"x-amz-sdk-checksum-algorithm", *(f"x-amz-checksum-{algorithm.lower()}" for algorithm in ALGORITHMS)}
)
#: The place in the environ for the request, once its operation is known.
PARSED = "sagelet.s3"


@dataclass(frozen=True)
class S3Request:
    call: Call
    environ: Environ
    #: Empty for the service itself.
    bucket: str
    #: Empty for the bucket itself.
    key: str
    query: Mapping[str, str]
    #: By lower-case names, as they were sent. `x-amz-*` of a presigned URL's query are among them.
    headers: Mapping[str, str]


def parse(call: Call, environ: Environ) -> S3Request:
    """Parses a request. Raises S3Error for a path that is not UTF-8, a key that is too long, or an expired presigned
    URL.
    """
    raw_path, _, raw_query = _target(environ).partition("?")
    query = dict(parse_qsl(raw_query, keep_blank_values=True, errors="replace"))
    bucket = bucket_of_host(call.headers.get("host", ""))
    path = _decoded(raw_path)[1:]
    if not bucket:
        bucket, _, path = path.partition("/")
    if len(path.encode()) > MAX_KEY:
        raise S3Error("KeyTooLongError", 400, "Your key is too long", Size=len(path.encode()), MaxSizeAllowed=MAX_KEY)
    _refuse_expired(query)
    headers = {**_headers_in_query(call, query), **call.headers}
    return S3Request(call, environ, bucket, path, query, headers)


def copy_source(text: str) -> tuple[str, str, str]:
    """Returns the bucket and the key that an `x-amz-copy-source` names, and its query. Authorization and reading both
    use it.
    """
    path, _, query = text.partition("?")
    bucket, _, key = unquote(path.removeprefix("/")).partition("/")
    return bucket, key, query


def _headers_in_query(call: Call, query: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers that a presigned URL carries, as octets. Raises S3Error for those that no header could have
    brought.

    The same holds for those that it requests for the answer (`response-*`). No other request has headers in its query,
    because version 2 would not sign them.
    """
    found: dict[str, str] = {}
    presigned = "authorization" not in call.headers
    for name, value in query.items():
        if name.lower().startswith("x-amz-"):
            octets = value.encode().decode("latin-1")
            if not is_name(name) or not is_value(octets):
                raise invalid_argument(name, value, "Headers have no control characters, and their names no spaces.")
            if presigned and name.lower() not in _NOT_IN_QUERY:
                found[name.lower()] = octets
        elif name.startswith("response-") and not is_value(value):
            legal = not any(ord(character) > 255 for character in value)
            reason = "contain control characters" if legal else "be represented using ISO-8859-1"
            raise invalid_argument(name, value, f"Header value cannot {reason}.")
    return found


def _target(environ: Environ) -> str:
    target: str = environ["REQUEST_URI"]
    if target.startswith("/"):
        return target
    parts = urlsplit(target)  # A proxy's client sends the whole URL.
    return f"{parts.path or '/'}?{parts.query}"


def _decoded(path: str) -> str:
    try:
        return unquote_to_bytes(path.encode("latin-1")).decode()
    except UnicodeDecodeError as error:
        raise S3Error("InvalidURI", 400, "Couldn't parse the specified URI.", URI=path) from error


def bucket_of_host(host: str) -> str:
    """Returns the bucket of a virtual-host style request. Empty for path style."""
    name = host_name(host)
    for ours in LOCAL_NAMES:
        if name.endswith(f".{ours}"):
            front = name[: -len(ours) - 1]
            match = _SERVICE.fullmatch(front)
            return (match["bucket"] or "") if match else front
    return ""


def _seconds(text: str) -> int:
    """Raises ValueError."""
    if (seconds := whole_number_in(text)) is None:
        raise ValueError(text)
    return seconds


def _refuse_expired(query: Mapping[str, str]) -> None:
    """Refuses expired presigned URLs, of signature version 4 and 2."""
    now = datetime.now(timezone.utc)
    try:
        if "X-Amz-Expires" in query:
            begin = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
            end = begin + timedelta(seconds=_seconds(query["X-Amz-Expires"]))
        elif "AWSAccessKeyId" in query:
            end = datetime.fromtimestamp(_seconds(query["Expires"]), timezone.utc)
        else:
            return
    except (KeyError, ValueError, OverflowError) as error:
        message = "X-Amz-Date and X-Amz-Expires (or Expires) must say when the presigned URL ends"
        raise S3Error("AuthorizationQueryParametersError", 400, message) from error
    if now > end:
        raise access_denied("Request has expired")
