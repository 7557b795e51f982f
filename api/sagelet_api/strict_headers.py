"""Headers that could mean one thing to whoever checks them and another to whoever acts on them are refused.

Source: RFC 9112, 6.1-6.3 (message body length) and 5.1 (no space before the colon).
"""

import re
from typing import Any

from cheroot.server import HeaderReader, HTTPRequest

#: May come once: a second one would be believed in the first one's place.
ONCE = frozenset(
    {
        b"Host",
        b"Content-Length",
        b"Transfer-Encoding",
        b"Authorization",
        b"X-Amz-Content-Sha256",
        b"X-Amz-Date",
        b"X-Amz-Security-Token",
        b"X-Amz-Target",
    }
)
_METADATA = b"X-Amz-Meta-"


class StrictHeaders(HeaderReader):
    """Of one request. Raises ValueError, which cheroot answers with 400."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def __call__(self, rfile: Any, hdict: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = super().__call__(rfile, hdict)
        if b"Content-Length" in headers and b"Transfer-Encoding" in headers:
            raise ValueError("Content-Length and Transfer-Encoding exclude each other.")
        if not re.fullmatch(rb"[0-9]+", headers.get(b"Content-Length", b"0")):
            raise ValueError("Malformed Content-Length Header.")
        return headers

    def _transform_key(self, key_name: bytes) -> bytes:
        if key_name != key_name.strip():
            raise ValueError("There is a space around the name of a header.")
        name = key_name.title()
        if name in ONCE and name in self._seen:
            raise ValueError(f"{name.decode()} is there twice.")
        self._seen.add(name)
        return name

    def _allow_header(self, key_name: bytes) -> bool:
        """WSGI cannot tell `x_amz_target` from `x-amz-target`; of metadata the names are kept elsewhere."""
        return b"_" not in key_name or key_name.startswith(_METADATA)


class StrictRequest(HTTPRequest):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.header_reader = StrictHeaders()
