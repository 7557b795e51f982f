"""Makes answers as bytes: AWS JSON 1.1, and errors in each of AWS's protocols."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from sagelet_api.protocol.aws_errors import MISSING_HEADER, AwsError
from sagelet_api.protocol.calls import Call, Protocol, StartResponse

_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def json_reply(call: Call, result: Mapping[str, Any] | None) -> Reply:
    """Returns an operation's result as a reply. None is an operation without output: 200 and no body, as AWS answers.

    Times are epoch seconds as floats already; repr of a float keeps their milliseconds. Half of a surrogate pair,
    which a client may have sent, has no UTF-8. It is written as JSON's escape.
    """
    body = b"" if result is None else _WRITER.encode(result).encode(errors="backslashreplace")
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": call.request_id}
    return Reply(200, body, headers)


def error_reply(call: Call, error: AwsError) -> Reply:
    return _ERRORS[call.protocol](call, error)


def send(call: Call, reply: Reply, start_response: StartResponse) -> Iterable[bytes]:
    """Writes a reply as WSGI."""
    headers = [*reply.headers.items(), ("Content-Length", str(len(reply.body)))]
    start_response(f"{reply.status} {HTTPStatus(reply.status).phrase}", headers)
    return [] if call.method == "HEAD" else [reply.body]


def _json_error(call: Call, error: AwsError) -> Reply:
    body = json.dumps({"__type": error.code, error.message_member: error.message}).encode()
    headers = {
        "Content-Type": "application/x-amz-json-1.1",
        "x-amzn-RequestId": call.request_id,
        "x-amzn-ErrorType": error.code,
        **({MISSING_HEADER: "true"} if error.missing else {}),
    }
    return Reply(error.status, body, headers)


def _query_error(call: Call, error: AwsError) -> Reply:
    fault = "Receiver" if error.status >= 500 else "Sender"
    inner = f"<Type>{fault}</Type>{_xml_code(error, validation='ValidationError')}"
    body = f"<ErrorResponse><Error>{inner}</Error><RequestId>{call.request_id}</RequestId></ErrorResponse>"
    return Reply(error.status, _utf8(body), {"Content-Type": "text/xml", "x-amzn-RequestId": call.request_id})


def _s3_error(call: Call, error: AwsError) -> Reply:
    details = "".join(f"<{name}>{_xml_text(value)}</{name}>" for name, value in error.details.items())
    place = f"<Resource>{_xml_text(call.path)}</Resource><RequestId>{call.request_id}</RequestId>"
    inner = f"{_xml_code(error)}{details}{place}"
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}</Error>'
    return Reply(error.status, _utf8(body), {"Content-Type": "application/xml", "x-amz-request-id": call.request_id})


def _xml_code(error: AwsError, validation: str = "Validation") -> str:
    # XML services spell their codes without the suffix of the Java class: AccessDenied, not AccessDeniedException. An
    # error with a code of its own keeps its spelling.
    if "code" in vars(error):
        code = error.code
    else:
        code = validation if error.code == "ValidationException" else error.code.removesuffix("Exception")
    return f"<Code>{_escaped(code)}</Code><Message>{_escaped(error.message)}</Message>"


def _xml_text(text: str) -> str:
    """Escapes a text. XML 1.0 has no control characters, which keys may have."""
    return _escaped(_CONTROLS.sub(lambda found: quote(found[0]), text))


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _cbor_error(call: Call, error: AwsError) -> Reply:
    body = b"\xa2" + b"".join(map(_cbor_text, ("__type", error.code, "message", error.message)))
    headers = {"Content-Type": "application/cbor", "x-amzn-RequestId": call.request_id}
    return Reply(error.status, body, {**headers, "smithy-protocol": "rpc-v2-cbor"})


def _cbor_text(text: str) -> bytes:
    """Returns a CBOR text string (RFC 8949, major type 3) with a four-byte length."""
    data = _utf8(text)
    return b"\x7a" + len(data).to_bytes(4, "big") + data


def _utf8(text: str) -> bytes:
    """Encodes a text that may echo half of a surrogate pair, for which XML and CBOR have no escape."""
    return text.encode(errors="replace")


_ERRORS: dict[Protocol, Callable[[Call, AwsError], Reply]] = {
    Protocol.JSON: _json_error,
    Protocol.QUERY: _query_error,
    Protocol.S3: _s3_error,
    Protocol.CBOR: _cbor_error,
}
