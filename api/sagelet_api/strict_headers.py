"""Headers that could mean one thing to whoever checks them and another to whoever acts on them are refused.

Source: RFC 9112, 5 (lines) and 6.1-6.3 (message body length); RFC 9110, 5.5 (characters of values).
"""

import re
from typing import Any

from cheroot.server import HeaderReader, comma_separated_headers  # type: ignore[attr-defined]

from sagelet_api.header_rules import TOKEN, VALUE

#: May come several times: together they are one list (RFC 9110, 5.3). Of any other name a second one would be believed
#: in the first one's place, whoever checked the first.
LISTS = frozenset(comma_separated_headers) - {b"Expect", b"Transfer-Encoding"} | {b"Forwarded", b"X-Forwarded-For"}
_METADATA = b"X-Amz-Meta-"
_FIELD = re.compile(rf"({TOKEN}):({VALUE})\r\n".encode())
#: 18 digits are more than any disk holds.
_LENGTH = re.compile(rb"[0-9]{1,18}")


class StrictHeaders(HeaderReader):
    """Of one request. Raises ValueError, which cheroot answers with 400."""

    def __call__(self, rfile: Any, hdict: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = {} if hdict is None else hdict
        while (line := rfile.readline()) != b"\r\n":
            name, value = _field(line)
            metadata = name.startswith(_METADATA)
            if name in headers and not metadata and name not in LISTS:
                raise ValueError(f"{name.decode()} is there twice.")
            # WSGI cannot tell `x_amz_target` from `x-amz-target`; of metadata the names are kept elsewhere.
            if b"_" in name and not metadata:
                continue
            if headers.get(name):
                # S3 joins metadata as it is signed, without a space.
                value = (b"," if metadata else b", ").join((headers[name], value))
            headers[name] = value
        _check_length(headers)
        return headers


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Name, in cheroot's capitals, and value of one line; no folded one, no space before the colon, no controls."""
    found = _FIELD.fullmatch(line)
    if found is None:
        raise ValueError("The headers end early." if not line else f"{line[:40]!r} is no header.")
    return found[1].title(), found[2].strip(b" \t")


def _check_length(headers: dict[bytes, bytes]) -> None:
    if b"Content-Length" in headers and b"Transfer-Encoding" in headers:
        raise ValueError("Content-Length and Transfer-Encoding exclude each other.")
    if not _LENGTH.fullmatch(headers.get(b"Content-Length", b"0")):
        raise ValueError("Malformed Content-Length Header.")
