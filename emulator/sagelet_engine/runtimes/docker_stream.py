"""Reads the body of an answer of Docker's that does not end.

Docker sends every line of a log as an HTTP chunk of its own. urllib3 hands them out one by one, which takes more time
than all that is done with the lines afterwards; so the bytes are read as they lie in the socket and unchunked here.
"""

from collections.abc import Iterator
from typing import Any

from urllib3.exceptions import ProtocolError

CHUNK_BYTES = 64 * 1024
_LINE_END = b"\r\n"


class Unchunker:
    """Bytes of a body in HTTP's chunked coding, however they are cut -> its content (RFC 9112, 7.1)."""

    def __init__(self) -> None:
        self._buffer = b""
        #: The last chunk was there.
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """The content of all chunks that are complete. Raises ProtocolError."""
        buffer, start, content = self._buffer + data, 0, []
        while not self.ended and (end_of_size := buffer.find(_LINE_END, start)) >= 0:
            size = _size(buffer[start:end_of_size])
            begin = end_of_size + 2
            if begin + size + 2 > len(buffer) and size:
                break
            content.append(buffer[begin : begin + size])
            self.ended = not size
            start = begin + size + 2
        self._buffer = buffer[start:]
        return b"".join(content)


def _size(line: bytes) -> int:
    """`SIZE[; extensions]`, hexadecimal."""
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError as error:
        raise ProtocolError(f"not the size of a chunk: {line[:40]!r}") from error


def body(response: Any) -> Iterator[bytes]:
    """The body of a urllib3 response as it comes. A broken connection ends it, or raises HTTPError or OSError."""
    # As docker-py does for the streams that it does not let urllib3 read.
    file = getattr(getattr(response, "_fp", None), "fp", None)
    if file is None or not response.chunked:
        yield from response.stream(CHUNK_BYTES, decode_content=False)
        return
    unchunker = Unchunker()
    while not unchunker.ended and (data := file.read1(CHUNK_BYTES)):
        if content := unchunker.feed(data):
            yield content
