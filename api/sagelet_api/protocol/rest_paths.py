"""Tells from its path that an unsigned request is for a REST service, and not for S3.

Only a signature names the service. Without one, most paths may be S3's, of an object in a bucket. A path counts as
another service's if its first part is the date of an API's version or too short for a bucket, and if botocore's model
of a service has paths that begin like it. A bucket may be called `restapis`, so that path is S3's.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from sagelet_api.protocol import botocore_parts
from sagelet_api.protocol.calls import Protocol
from sagelet_api.protocol.operation_names import rest_models

#: The names of buckets have three characters or more.
_FIRST = re.compile(r"\d{4}-\d{2}-\d{2}|..?")
#: Route 53 and CloudFront write their errors as the Query protocol does.
_PROTOCOLS = {"rest-json": Protocol.JSON, "rest-xml": Protocol.QUERY}
#: The first two parts of a path. The second one is empty where a path has a parameter in its place.
Beginning = tuple[str, str]


def rest_protocol(path: str) -> Protocol | None:
    """Returns the protocol of the REST service that has such a path, or None. The first call reads all models (1 s)."""
    first, _, rest = path[1:].partition("/")
    second = rest.partition("/")[0]
    if not second or not _FIRST.fullmatch(first):
        return None
    found = _beginnings()
    return found.get((first, second)) or found.get((first, ""))


@cache
def _beginnings() -> Mapping[Beginning, Protocol]:
    return {beginning: protocol for name in rest_models() for beginning, protocol in _of(name)}


def _of(name: str) -> Iterator[tuple[Beginning, Protocol]]:
    model = botocore_parts.model_data(name)
    for operation in model["operations"].values():
        first, _, rest = operation["http"]["requestUri"].partition("?")[0][1:].partition("/")
        if _FIRST.fullmatch(first) and rest:
            second = rest.partition("/")[0]
            yield (first, "" if "{" in second else second), _PROTOCOLS[model["metadata"]["protocol"]]
