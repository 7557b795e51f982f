"""Which operation a request is, by the routes of botocore's S3 model: method, path, and what the query must hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from sagelet_api.services.s3.errors import conflicting

#: Requests of another kind of bucket, and of a Lambda function that stands before one.
_LEFT_OUT = ("ListDirectoryBuckets", "CreateSession", "WriteGetObjectResponse")
#: The model has two generations of these; the older has the same route.
_OLD = ("GetBucketLifecycle", "PutBucketLifecycle", "GetBucketNotification", "PutBucketNotification")


@dataclass(frozen=True)
class Route:
    operation: str
    method: str
    #: 0: the service, 1: a bucket, 2: an object.
    depth: int
    #: Parameters that the query must have, and their values where the route says them.
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
    """botocore's model of S3, loaded by the first request (0.1 s)."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model("s3", "service-2"), "s3")


@cache
def routes() -> dict[tuple[str, int], list[Route]]:
    """By method and depth, the most demanding first."""
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
    """The operation's name; None when S3 has none for this. Raises S3Error for a request that names two."""
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
    """The parameters of a query that make another operation of a request."""
    return frozenset(name for entries in routes().values() for route in entries for name, _ in route.query)


def _route(operation: Any) -> Route:
    path, _, literal = operation.http["requestUri"].partition("?")
    query: list[tuple[str, str | None]] = [
        (name, value or None) for name, value in parse_qsl(literal, keep_blank_values=True)
    ]
    shape = operation.input_shape
    required = [shape.members[name].serialization for name in shape.required_members] if shape else []
    query += [(place["name"], None) for place in required if place.get("location") == "querystring"]
    # Only this header tells one operation from another; without the others it is the same, and wrong.
    headers = [place["name"] for place in required if place.get("name") == "x-amz-copy-source"]
    depth = 2 if "{Key+}" in path else 1 if "{Bucket}" in path else 0
    return Route(operation.name, operation.http["method"], depth, tuple(query), tuple(headers))
