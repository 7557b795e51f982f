"""Logs one line for each request, at the level info: method, service, operation, path, status, milliseconds, request
id.

`-` stands for what a request does not have. No line holds a credential. So headers and queries, which hold signatures
and tokens, are left out, and so is the part of a path that identifies a job to the hub. Names and paths are
percent-encoded, so no client can end a line, add a word to it, or move a terminal's cursor.
"""

import logging
from collections.abc import Iterable
from urllib.parse import quote

from sagelet_api.protocol.calls import CALL, Call, Environ
from sagelet_engine.hub.access import without_reader

_log = logging.getLogger(__name__)

#: Characters that are kept of a name or a path. A request line may have 256 KiB.
LONGEST = 300
_REQUEST_IDS = (b"x-amzn-requestid", b"x-amz-request-id")
#: RFC 3986, 3.3: characters that a path may have besides letters, digits and `-._~`.
_SAFE = "/:@!$&'()*+,;="


def log_answer(environ: Environ, status: bytes, headers: Iterable[tuple[bytes, bytes]], seconds: float) -> None:
    """Logs a request that the application has answered. `headers` are the answer's, with its request id."""
    if not _log.isEnabledFor(logging.INFO):
        return
    call: Call | None = environ.get(CALL)
    found = next((value for name, value in headers if name.lower() in _REQUEST_IDS), b"")
    _write(
        environ["REQUEST_METHOD"],
        call.service if call else "",
        call.operation if call else "",
        without_reader(environ.get("PATH_INFO", "")),
        status.decode("latin-1"),
        seconds,
        found.decode("latin-1"),
    )


def log_refusal(method: bytes | None, status: str) -> None:
    """Logs a request that is not HTTP, or that nothing could answer. Its own words are left out, because they may be of
    any header.
    """
    if _log.isEnabledFor(logging.INFO):
        _write((method or b"").decode("latin-1"), "", "", "", status, 0.0, "")


def _write(method: str, service: str, operation: str, path: str, status: str, seconds: float, identity: str) -> None:
    _log.info(
        "%s %s %s %s %s %.1f ms %s",
        _word(method),
        _word(service),
        _word(operation),
        _word(path),
        _word(status[:3]),
        seconds * 1000,
        _word(identity),
    )


def _word(text: str) -> str:
    """Encodes a word of a line. `text` holds octets, a character for each, as in WSGI."""
    escaped = quote(text[:LONGEST].encode("latin-1", "replace"), safe=_SAFE)
    return f"{escaped}..." if len(text) > LONGEST else escaped or "-"
