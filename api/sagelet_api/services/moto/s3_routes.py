"""Rewrites a request about a bucket's configuration so that moto runs that operation and no other.

moto uses the first subresource that it knows in the query, and takes a bucket's name from Host or path by its own
rules. If it knows none of the subresources, it lists, makes or deletes the bucket.
"""

from collections.abc import Mapping
from functools import cache
from urllib.parse import quote, urlencode

from sagelet_api.protocol.calls import Environ
from sagelet_api.protocol.s3.errors import not_implemented
from sagelet_api.protocol.s3.request import S3Request, routes, service_model

#: The query parameters that moto 5.2 looks for, by method. Found in its `_bucket_response_*`.
_BOTH = {
    *("accelerate", "cors", "inventory", "lifecycle", "logging", "notification", "object-lock"),
    *("ownershipControls", "policy", "publicAccessBlock", "replication", "tagging", "website"),
}
_KNOWN: Mapping[str, frozenset[str]] = {
    "GET": frozenset(_BOTH | {"policyStatus"}),
    "PUT": frozenset(_BOTH),
    "DELETE": frozenset(
        {"cors", "lifecycle", "ownershipControls", "policy", "publicAccessBlock", "replication"}
        | {"tagging", "website"}
    ),
}


def canonical(environ: Environ, operation: str, asked: S3Request) -> Environ:
    """Returns the request in path style, with the parameters of the operation only. Raises S3Error for one that moto
    does not have.
    """
    method = environ["REQUEST_METHOD"]
    subresources = {name for name, _ in _query(operation)} & _KNOWN.get(method, frozenset())
    if len(subresources) != 1:
        raise not_implemented(f"s3 {operation} is not implemented by sagelet, nor by moto behind it.")
    names = {name for name, _ in _query(operation)} | _parameters(operation)
    query = urlencode({name: value for name, value in asked.query.items() if name in names})
    path = f"/{quote(asked.bucket)}"
    return {
        **environ,
        "PATH_INFO": f"/{asked.bucket}",
        "RAW_URI": f"{path}?{query}",
        "QUERY_STRING": query,
        "HTTP_HOST": "localhost",
    }


@cache
def _query(operation: str) -> tuple[tuple[str, str | None], ...]:
    return next(route.query for entries in routes().values() for route in entries if route.operation == operation)


@cache
def _parameters(operation: str) -> frozenset[str]:
    shape = service_model().operation_model(operation).input_shape
    members = shape.members.values() if shape else ()
    places = [member.serialization for member in members]
    return frozenset(place["name"] for place in places if place.get("location") == "querystring")
