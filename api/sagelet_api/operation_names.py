"""Which operation a request names, found once: whoever authorises it and whoever runs it go by the same answer.

AWS's protocols put the name into a header (AWS JSON), the path (CBOR, REST), the query string or a form (Query). A
request that names an operation in two of these places would mean one thing to the check and another to the handler, so
it is refused, whoever sends it.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl

from sagelet_api.aws_errors import AmbiguousOperation, IncompleteBody, RequestEntityTooLarge
from sagelet_api.operations import RestOperation
from sagelet_api.protocol import Call, Environ, read_body, rewind

#: Forms are small; CloudFormation templates of 1 MB are the largest.
MAX_FORM = 8 * 1024 * 1024
_FORM = "application/x-www-form-urlencoded"
_OPERATION = "/operation/"
RestTable = Mapping[tuple[str, str, str], RestOperation]


def name_operation(call: Call, environ: Environ, rest: RestTable) -> Call:
    """The call with its `operation`; empty where only the route of another service's REST API tells it.

    S3 finds its own (`services/s3/routing.py`), since nothing but the route names them. Raises AmbiguousOperation.
    """
    if call.service == "s3":
        return replace(call, operation="")
    found = [*_names(call, environ, rest)]
    if len(found) > 1:
        raise AmbiguousOperation(
            f"The request names {len(found)} operations ({', '.join(f'{where}: {name}' for where, name in found)}): "
            "send one name, in one place."
        )
    return replace(call, operation=found[0][1] if found else "")


def _names(call: Call, environ: Environ, rest: RestTable) -> Iterator[tuple[str, str]]:
    """Each place that names one, with the name. Names are of a caller's making: they may be of any text."""
    if target := call.headers.get("x-amz-target"):
        yield "X-Amz-Target", target.rpartition(".")[2]
    if "smithy-protocol" in call.headers and _OPERATION in call.path:
        yield "the path", call.path.rpartition(_OPERATION)[2]
    yield from (("the query string", name) for name in _actions(environ.get("QUERY_STRING", "")))
    if call.headers.get("content-type", "").strip().lower().startswith(_FORM):
        yield from (("the form", name) for name in _actions(form_body(environ).decode("utf-8", "replace")))
    if one := rest.get((call.service, call.method, call.path)):
        yield "the path", one.operation


def _actions(text: str) -> list[str]:
    return [value for name, value in parse_qsl(text, keep_blank_values=True) if name == "Action" and value]


def form_body(environ: Environ) -> bytes:
    """A form as it was meant, put back for the next to read: one that was compressed no longer is.

    Raises IncompleteBody, RequestEntityTooLarge.
    """
    body = read_body(environ, MAX_FORM)
    if environ.get("HTTP_CONTENT_ENCODING", "").strip().lower() == "gzip":
        body = _unpacked(body)
        del environ["HTTP_CONTENT_ENCODING"]
    rewind(environ, body)
    return body


def _unpacked(body: bytes) -> bytes:
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        unpacked = reader.decompress(body, MAX_FORM)
    except zlib.error as error:
        raise IncompleteBody(f"The request body is not the gzip that Content-Encoding says: {error}") from error
    if reader.unconsumed_tail:
        raise RequestEntityTooLarge(f"The request body is larger than {MAX_FORM} bytes when it is unpacked.")
    if not reader.eof:
        raise IncompleteBody("The request body ends within the gzip that Content-Encoding says.")
    return unpacked
