"""Bodies of requests, as WSGI reads them. They end exactly where the next request begins.

Source: RFC 9112, 6 and 7. cheroot's own classes hold a whole chunk in memory, take signed sizes, leave trailers to be
read as the next request, and copy the bytes four times, which was most of an upload's CPU time apart from MD5. So where
possible bytes go from the socket straight into the caller's memory (`readinto`).
"""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sagelet_api.http.streams import RequestReader

#: An unwanted body of up to this size is read to its end, because a client that still sends would not see its answer.
DRAIN_LIMIT = 64 * 1024 * 1024
_PIECE = 64 * 1024
#: Bytes of a chunk's size with its extensions, and of all trailers.
_MOST_LINE, _MOST_TRAILERS = 4 * 1024, 64 * 1024
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?\r\n")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n")


class BrokenBody(OSError):
    """The body does not match its framing, or did not arrive whole."""


class RequestBody(io.RawIOBase):
    """A request's body. `proceed` is called before the first byte is read, so that a client that asked for it sends its
    body.
    """

    def __init__(self, source: RequestReader, proceed: Callable[[], None] | None = None) -> None:
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

    def __init__(self, source: RequestReader, length: int, proceed: Callable[[], None] | None = None) -> None:
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
            raise BrokenBody(f"{line[:40]!r} is not the size of a chunk")
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
                raise BrokenBody(f"{line[:40]!r} is not a trailer")
