"""Reads requests of HTTP/1.0 and 1.1 strictly: a lenient server can be made to see two requests in one.

Headers are refused if they could mean one thing to a check and another to the code that acts on them.

Source: RFC 9112, 2.2, 3 (request line), 5 (lines), 6 (message body) and 6.1-6.3 (its length); RFC 9110, 5.5 (characters
of values) and 10.1.1 (Expect).
"""

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from cheroot.server import HeaderReader, HTTPRequest, comma_separated_headers  # type: ignore[attr-defined]

from sagelet_api.http.request_body import ChunkedBody, LengthBody, RequestBody
from sagelet_api.http.request_log import log_refusal
from sagelet_api.protocol.header_rules import TOKEN, VALUE

#: These may come several times and form one list (RFC 9110, 5.3). For any other name, code might use the second value
#: after the first was checked.
LISTS = frozenset(comma_separated_headers) - {b"Expect", b"Transfer-Encoding"} | {b"Forwarded", b"X-Forwarded-For"}
_METADATA = b"X-Amz-Meta-"
_FIELD = re.compile(rf"({TOKEN}):({VALUE})\r\n".encode())
#: No disk holds a number of bytes with more than 18 digits.
_WHOLE_NUMBER = re.compile(rb"[0-9]{1,18}")


class StrictHeaders(HeaderReader):
    """The headers of one request. Raises ValueError, which cheroot answers with 400."""

    def __call__(self, rfile: Any, hdict: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = {} if hdict is None else hdict
        while (line := rfile.readline()) != b"\r\n":
            name, value = _field(line)
            metadata = name.startswith(_METADATA)
            if name in headers and not metadata and name not in LISTS:
                raise ValueError(f"{name.decode()} occurs twice.")
            # WSGI cannot tell `x_amz_target` from `x-amz-target`. The names of metadata are kept elsewhere.
            if b"_" in name and not metadata:
                continue
            if headers.get(name):
                # S3 joins repeated metadata without a space, which is how it is signed.
                value = (b"," if metadata else b", ").join((headers[name], value))
            headers[name] = value
        _check_length(headers)
        return headers


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Returns the name, in cheroot's capitals, and the value of one line.

    Refuses a folded line, a space before the colon, and control characters.
    """
    found = _FIELD.fullmatch(line)
    if found is None:
        raise ValueError("The headers end early." if not line else f"{line[:40]!r} is not a header.")
    return found[1].title(), found[2].strip(b" \t")


def _check_length(headers: dict[bytes, bytes]) -> None:
    if b"Content-Length" in headers and b"Transfer-Encoding" in headers:
        raise ValueError("Content-Length and Transfer-Encoding exclude each other.")
    if not _WHOLE_NUMBER.fullmatch(headers.get(b"Content-Length", b"0")):
        raise ValueError("Malformed Content-Length Header.")


#: Method, target, version, without control characters. Some clients send octets above 127 unescaped.
_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9])\.([0-9])\r\n")
_ESCAPED_SLASH = re.compile(rb"%2F", re.IGNORECASE)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class StrictRequest(HTTPRequest):
    rfile: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.header_reader = StrictHeaders()
        self.close_connection = False
        self._body: RequestBody | None = None

    def read_request_line(self) -> bool:
        """Returns whether the line is a request line. If not, it has been answered."""
        line = self.rfile.readline()
        if line == b"\r\n":
            # RFC 9112, 2.2: one empty line before the request line is ignored.
            line = self.rfile.readline()
        self.started_request = True
        if not line:
            return False
        refusal = self._read_line(line)
        if refusal is None:
            return True
        self.simple_response(*refusal)
        return False

    def read_request_headers(self) -> bool:
        """Reads the headers as cheroot does, and checks what cheroot takes for granted."""
        try:
            self.header_reader(self.rfile, self.inheaders)
        except ValueError as error:
            return self._refuse("400 Bad Request", str(error))
        encoding = self.inheaders.get(b"Transfer-Encoding")
        if encoding is not None and self.request_protocol != b"HTTP/1.1":
            return self._refuse("400 Bad Request", "Transfer-Encoding is HTTP/1.1's.")
        if encoding is not None and encoding.lower() != b"chunked":
            return self._refuse("501 Not Implemented", "The only Transfer-Encoding here is chunked.")
        if self.inheaders.get(b"Expect", b"100-continue").lower() != b"100-continue":
            return self._refuse("417 Expectation Failed", "The only expectation here is 100-continue.")
        self.chunked_read = encoding is not None
        words = {word.strip().lower() for word in self.inheaders.get(b"Connection", b"").split(b",")}
        modern = self.request_protocol == b"HTTP/1.1"
        self.close_connection = b"close" in words or not (modern or b"keep-alive" in words)
        return True

    def respond(self) -> None:
        """Has the gateway answer. Then reads the rest of the body, or ends the connection."""
        asked = b"Expect" in self.inheaders and self.request_protocol == b"HTTP/1.1"
        proceed = (lambda: self.conn.wfile.write(_CONTINUE)) if asked else None
        length = int(self.inheaders.get(b"Content-Length", 0))
        source = self.conn.rfile
        self._body = ChunkedBody(source, proceed) if self.chunked_read else LengthBody(source, length, proceed)
        self.rfile = self._body
        self.server.gateway(self).respond()
        if self.ready:
            self.ensure_headers_sent()
        if self.chunked_write:
            self.conn.wfile.write(b"0\r\n\r\n")

    def send_headers(self) -> None:
        """Sends the head, with `Connection: close` if the next request could not be told from the rest of this one."""
        if self._body is not None and not self._body.drain():
            self.close_connection = True
            self.conn.unread = True
        super().send_headers()

    def simple_response(self, status: str, msg: str = "") -> None:
        """Answers a request that no application sees, or could answer."""
        log_refusal(getattr(self, "method", b""), status)
        super().simple_response(status, msg)

    def _read_line(self, line: bytes) -> tuple[str, str] | None:
        """Returns status and reason of what is wrong with a line, or None."""
        found = _LINE.fullmatch(line)
        if found is None:
            return "400 Bad Request", "Malformed Request-Line"
        method, target, major, minor = found.groups()
        if (major, minor) not in ((b"1", b"0"), (b"1", b"1")):
            return "505 HTTP Version Not Supported", "This server speaks HTTP/1.0 and HTTP/1.1"
        if method != method.upper():
            return "400 Bad Request", "The names of methods are in capitals"
        if method == b"CONNECT":
            return "405 Method Not Allowed", "This server is not a proxy"
        if b"#" in target or not (target.startswith(b"/") or (method, target) == (b"OPTIONS", b"*")):
            return "400 Bad Request", "The target of a request is a path from the root"
        self.method, self.uri, self.authority = method, target, b""
        path, _, self.qs = target.partition(b"?")
        # An escaped slash stays escaped, because it is not a separator.
        self.path = b"%2F".join(map(unquote_to_bytes, _ESCAPED_SLASH.split(path)))
        self.request_protocol = b"HTTP/1." + minor
        self.response_protocol = "HTTP/1." + minor.decode()
        return None

    def _refuse(self, status: str, reason: str) -> bool:
        self.simple_response(status, reason)
        return False
