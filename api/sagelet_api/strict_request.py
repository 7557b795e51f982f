"""Requests of HTTP/1.0 and 1.1, read to the letter: a server that is liberal here is talked into reading two requests
where another program saw one.

Source: RFC 9112, 2.2, 3 (request line) and 6 (message body); RFC 9110, 10.1.1 (Expect).
"""

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from cheroot.server import HTTPRequest

from sagelet_api.request_body import ChunkedBody, LengthBody, RequestBody
from sagelet_api.strict_headers import StrictHeaders

#: Method, target, version; no control characters. Octets above 127 are what some clients send unescaped.
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
        """Whether it is one; else it has been answered."""
        line = self.rfile.readline()
        if line == b"\r\n":
            # RFC 9112, 2.2: one empty line before it is ignored.
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
        """As cheroot does, with what it takes for granted."""
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
        """Has the gateway answer. What is left of the body then is read, or the connection ends."""
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
        """With `Connection: close` where the next request could not be told from what is left of this one."""
        if self._body is not None and not self._body.drain():
            self.close_connection = True
            self.conn.unread = True
        super().send_headers()

    def _read_line(self, line: bytes) -> tuple[str, str] | None:
        """What is wrong with it: status and reason."""
        found = _LINE.fullmatch(line)
        if found is None:
            return "400 Bad Request", "Malformed Request-Line"
        method, target, major, minor = found.groups()
        if (major, minor) not in ((b"1", b"0"), (b"1", b"1")):
            return "505 HTTP Version Not Supported", "This server speaks HTTP/1.0 and HTTP/1.1"
        if method != method.upper():
            return "400 Bad Request", "The names of methods are in capitals"
        if method == b"CONNECT":
            return "405 Method Not Allowed", "This server is no proxy"
        if b"#" in target or not (target.startswith(b"/") or (method, target) == (b"OPTIONS", b"*")):
            return "400 Bad Request", "The target of a request is a path from the root"
        self.method, self.uri, self.authority = method, target, b""
        path, _, self.qs = target.partition(b"?")
        # An escaped slash stays what it is: no separator.
        self.path = b"%2F".join(map(unquote_to_bytes, _ESCAPED_SLASH.split(path)))
        self.request_protocol = b"HTTP/1." + minor
        self.response_protocol = "HTTP/1." + minor.decode()
        return None

    def _refuse(self, status: str, reason: str) -> bool:
        self.simple_response(status, reason)
        return False
