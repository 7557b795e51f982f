"""Reads the body of an answer of Docker that does not end.

Docker sends every line of a log as an HTTP chunk. urllib3 returns the chunks one by one, which takes more time than all
later work on the lines. So this module reads the bytes from the socket and decodes the chunks itself.

A thread reads the blocking stream, so that its consumer can wait with a time limit.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from urllib3.exceptions import ProtocolError

log = logging.getLogger(__name__)

#: Chunks that may wait for the consumer. When they are full, the thread waits, and so does the sender.
CAPACITY = 64


class ByteRelay:
    """Reads `chunks` in a thread until it ends or raises one of `broken`. `interrupt` ends a blocked read."""

    def __init__(
        self, chunks: Iterable[bytes], interrupt: Callable[[], None], broken: tuple[type[Exception], ...]
    ) -> None:
        self._chunks = chunks
        self._interrupt = interrupt
        self._broken = broken
        self._queue: queue.Queue[bytes | None] = queue.Queue(CAPACITY)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sagelet-log-relay", daemon=True)

    def __enter__(self) -> "ByteRelay":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._interrupt()
        self._thread.join()

    def read(self, timeout_s: float) -> bytes | None:
        """Returns the bytes received, at least one chunk. Returns b"" after `timeout_s`, None at the stream's end."""
        try:
            chunk = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return b""
        gathered = []
        while chunk is not None:
            gathered.append(chunk)
            if len(gathered) == CAPACITY or self._queue.empty():
                break
            chunk = self._queue.get()
        if chunk is None and gathered:
            self._queue.put(None)
        return b"".join(gathered) if gathered else None

    def _run(self) -> None:
        try:
            for chunk in self._chunks:
                if not self._put(chunk):
                    return
        except self._broken as error:
            # It counts as ended: the consumer asks the engine for the host's state.
            log.debug("a stream of output broke: %s", error)
        finally:
            self._put(None)

    def _put(self, chunk: bytes | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(chunk, timeout=0.5)
            except queue.Full:
                continue
            return True
        return False


CHUNK_BYTES = 64 * 1024
_LINE_END = b"\r\n"


class Unchunker:
    """Decodes a body in HTTP's chunked coding, fed in pieces of any size (RFC 9112, 7.1)."""

    def __init__(self) -> None:
        self._buffer = b""
        #: True once the last chunk was read.
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """Returns the content of all chunks that are complete. Raises ProtocolError."""
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
    """Reads the line before a chunk: `SIZE[; extensions]`, the size hexadecimal."""
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError as error:
        raise ProtocolError(f"not the size of a chunk: {line[:40]!r}") from error


def body(response: Any) -> Iterator[bytes]:
    """Yields the body of a urllib3 response as it comes. A broken connection ends it or raises HTTPError or OSError."""
    # docker-py reaches the file in the same way for the streams that it reads itself.
    file = getattr(getattr(response, "_fp", None), "fp", None)
    if file is None or not response.chunked:
        yield from response.stream(CHUNK_BYTES, decode_content=False)
        return
    unchunker = Unchunker()
    while not unchunker.ended and (data := file.read1(CHUNK_BYTES)):
        if content := unchunker.feed(data):
            yield content
