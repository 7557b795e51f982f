"""Reads requests of HTTP/1.0 and 1.1 strictly: a lenient server can be made to see two requests in one.

Headers are refused if they could mean one thing to a check and another to the code that acts on them. Bodies end
exactly where the next request begins. cheroot's own classes hold a whole chunk in memory, take signed sizes, leave
trailers to be read as the next request, and copy the bytes four times, which was most of an upload's CPU time apart
from MD5. So where possible bytes go from the socket straight into the caller's memory (`readinto`).

Source: RFC 9112, 2.2, 3 (request line), 5 (lines), 6 (message body), 6.1-6.3 (its length) and 7 (chunks); RFC 9110, 5.5
(characters of values) and 10.1.1 (Expect).
"""

import io
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from cheroot.server import HTTPRequest, comma_separated_headers  # type: ignore[attr-defined]

from sagelet_api.http.request_log import log_refusal
from sagelet_api.protocol.header_rules import TOKEN, VALUE

#: An unwanted body of up to this size is read to its end, because a client that still sends would not see its answer.
DRAIN_LIMIT = 64 * 1024 * 1024
_PIECE = 64 * 1024
#: Bytes of a chunk's size with its extensions, and of all trailers.
_MOST_LINE, _MOST_TRAILERS = 4 * 1024, 64 * 1024
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?\r\n")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n")


class BrokenBody(OSError):
    """The body does not match its framing, or did not arrive whole."""


class Source(Protocol):
    """The reading side of a connection. Its methods raise OSError, also for a client that is too slow."""

    def read(self, size: int) -> bytes:
        """Reads `size` bytes, or fewer at the end of the stream."""
        ...

    def readinto(self, buffer: memoryview) -> int:
        """Reads what is there, up to as many bytes as fit. Returns their number, 0 at the end of the stream."""
        ...

    def readline(self, size: int) -> bytes:
        """Reads up to a line's end, `size` bytes, or the end of the stream."""
        ...


class RequestBody(io.RawIOBase):
    """A request's body. `proceed` is called before the first byte is read, so that a client that asked for it sends its
    body.
    """

    def __init__(self, source: Source, proceed: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._source = source
        self._proceed = proceed
        self._broken = False
        #: True if the next byte of the connection is not the body's any more.
        self.finished = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        """Reads `size` bytes, or everything for None or -1. Raises OSError if the body does not come as it was
        announced.
        """
        if self.finished or size == 0:
            return b""
        with self._reading():
            return self._all() if size is None or size < 0 else self._some(size)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        if self._broken:
            raise BrokenBody("the body is broken")
        if self._proceed is not None:
            self._proceed()
            self._proceed = None
        try:
            yield
        except OSError:
            self._broken = True
            raise

    def readall(self) -> bytes:
        return self.read()

    def drain(self) -> bool:
        """Reads and drops the rest. Returns False if that is too much, or if it does not come."""
        left = DRAIN_LIMIT
        try:
            while not self.finished and left > 0 and self._is_worth_reading(left):
                left -= len(self.read(_PIECE))
        except OSError:
            return False
        return self.finished

    def _is_worth_reading(self, _left: int) -> bool:
        """True if the rest is worth reading. A client that waits to be asked for its body is not asked just to
        drop it.
        """
        return self._proceed is None and not self._broken

    def _all(self) -> bytes:
        return b"".join(iter(lambda: self._some(_PIECE), b""))

    def _some(self, size: int) -> bytes:
        raise NotImplementedError


class LengthBody(RequestBody):
    """A body that is as long as Content-Length says."""

    def __init__(self, source: Source, length: int, proceed: Callable[[], None] | None = None) -> None:
        super().__init__(source, proceed)
        self._left = length
        self.finished = not length

    def _is_worth_reading(self, left: int) -> bool:
        return self._left <= left and super()._is_worth_reading(left)

    def readinto(self, buffer: Any) -> int:
        """Reads up to as many bytes as fit and returns their number. 0 at the end. Raises OSError."""
        if self.finished or not len(buffer):
            return 0
        with self._reading():
            count = self._source.readinto(memoryview(buffer)[: self._left])
            self._took(count, short=not count)
        return count

    def _some(self, size: int) -> bytes:
        wanted = min(size, self._left)
        data = self._source.read(wanted)
        self._took(len(data), short=len(data) < wanted)
        return data

    def _took(self, count: int, *, short: bool) -> None:
        self._left -= count
        if short:
            raise BrokenBody(f"the connection ended {self._left} bytes before the body did")
        self.finished = not self._left


class ChunkedBody(RequestBody):
    """A body in chunks. Trailers are read and dropped: nothing here asks for them (aws-chunked has its own)."""

    #: Bytes left of the current chunk. None if the next line is a chunk's size.
    _left: int | None = None

    def _some(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size and not self.finished:
            if self._left is None:
                self._left = self._size()
                continue
            wanted = min(size, self._left)
            data = self._source.read(wanted)
            parts.append(data)
            if len(data) < wanted:
                raise BrokenBody("the connection ended within a chunk")
            size -= wanted
            self._left -= wanted
            if not self._left:
                self._end_chunk()
        return b"".join(parts)

    def _size(self) -> int | None:
        line = self._source.readline(_MOST_LINE)
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            raise BrokenBody(f"{_quoted(line)} is not the size of a chunk")
        size = int(found[1], 16)
        if size:
            return size
        self._read_trailers()
        self.finished = True
        return None

    def _end_chunk(self) -> None:
        if self._source.read(2) != b"\r\n":
            raise BrokenBody("a chunk is longer than its size says")
        self._left = None

    def _read_trailers(self) -> None:
        left = _MOST_TRAILERS
        while (line := self._source.readline(left)) != b"\r\n":
            left -= len(line)
            if left <= 0 or not _TRAILER.fullmatch(line):
                raise BrokenBody(f"{_quoted(line)} is not a trailer")


#: These may come several times and form one list (RFC 9110, 5.3). For any other name, code might use the second value
#: after the first was checked.
LISTS = frozenset(comma_separated_headers) - {b"Expect", b"Transfer-Encoding"} | {b"Forwarded", b"X-Forwarded-For"}
_METADATA = b"X-Amz-Meta-"
_FIELD = re.compile(rf"({TOKEN}):({VALUE})".encode())
#: No disk holds a number of bytes with more than 18 digits.
_WHOLE_NUMBER = re.compile(rb"[0-9]{1,18}")


def read_fields(lines: Iterable[bytes]) -> dict[bytes, bytes]:
    """Reads the header lines of one request, without their ends. Names get cheroot's capitals. Raises ValueError.

    Refuses a folded line, a space before the colon, and control characters.
    """
    headers: dict[bytes, bytes] = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise ValueError(f"{_quoted(line)} is not a header.")
        name, value = found[1].title(), found[2].strip(b" \t")
        if name in headers or b"_" in name:
            _add_unusual(headers, name, value)
        else:
            headers[name] = value
    _check_length(headers)
    return headers


def _add_unusual(headers: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    """Adds a header that has occurred before, or whose name has an underscore. Raises ValueError."""
    metadata = name.startswith(_METADATA)
    if name in headers and not metadata and name not in LISTS:
        raise ValueError(f"{name.decode()} occurs twice.")
    # WSGI cannot tell `x_amz_target` from `x-amz-target`. The names of metadata are kept elsewhere.
    if b"_" in name and not metadata:
        return
    if headers.get(name):
        # S3 joins repeated metadata without a space, which is how it is signed.
        value = (b"," if metadata else b", ").join((headers[name], value))
    headers[name] = value


def _quoted(line: bytes) -> str:
    """Returns the beginning of a line of a request, in quotes, for a message."""
    return repr(line[:40].decode("latin-1").rstrip("\r\n"))


def _check_length(headers: dict[bytes, bytes]) -> None:
    if b"Content-Length" in headers and b"Transfer-Encoding" in headers:
        raise ValueError("Content-Length and Transfer-Encoding exclude each other.")
    if not _WHOLE_NUMBER.fullmatch(headers.get(b"Content-Length", b"0")):
        raise ValueError("Malformed Content-Length Header.")


#: Method, target, version, without control characters. Some clients send octets above 127 unescaped.
_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9])\.([0-9])")
_ESCAPED_SLASH = re.compile(rb"%2F", re.IGNORECASE)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HEAD_END = b"\r\n\r\n"


@lru_cache(maxsize=1)
def _date(epoch: int) -> bytes:
    """Returns the header Date of one second. Hundreds of answers share it."""
    return formatdate(epoch, usegmt=True).encode()


class StrictRequest(HTTPRequest):
    rfile: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.close_connection = False
        self._body: RequestBody | None = None

    def parse_request(self) -> None:
        """Reads the head, and answers one that is not a request. cheroot's method waits for each line."""
        # RFC 9112, 2.2: one empty line before the request line is ignored.
        head = self.conn.rfile.take_head().removeprefix(b"\r\n")
        if not head:
            return
        self.started_request = True
        line, _, _ = head.partition(b"\r\n")
        most = self.server.max_request_header_size
        if len(line) > most:
            self.simple_response("414 Request-URI Too Long", "The request line is larger than this server takes.")
        elif refusal := self._read_line(line):
            self.simple_response(*refusal)
        elif len(head) > most:
            self.simple_response("413 Request Entity Too Large", "The headers are larger than this server takes.")
        elif not head.endswith(_HEAD_END):
            self._refuse("400 Bad Request", "The headers end early.")
        else:
            self.ready = self._read_headers(head.split(b"\r\n")[1:-2])
        # The rest of a refused request, which may still come, is dropped before the connection ends.
        self.conn.unread = not self.ready

    def _read_headers(self, lines: Iterable[bytes]) -> bool:
        """Reads the headers as cheroot does, and checks what cheroot takes for granted."""
        try:
            self.inheaders = read_fields(lines)
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
        """Sends the head, with `Connection: close` if the next request cannot be told from the rest of this one."""
        if self._body is not None and not self._body.drain():
            self.close_connection = True
            self.conn.unread = True
        if not any(name.lower() == b"date" for name, _ in self.outheaders):
            self.outheaders.append((b"Date", _date(int(time.time()))))
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
