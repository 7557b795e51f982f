"""A connection and its two sides: what a client sends is collected, and an answer leaves in as few pieces as it may.

The reading side collects until a worker can go on without waiting for the client. The writing side sends the head of an
answer together with the beginning of its body.
"""

import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cheroot.server import HTTPConnection

from sagelet_api.http.strict_request import StrictRequest

#: Bodies up to this size are waited for without a worker. A worker reads larger ones as they come.
GATHERED = 64 * 1024
#: Bytes that are taken from the kernel at once.
CHUNK = 256 * 1024
#: The same for requests that are gathered, which are small. Memory of CHUNK would be mapped anew for each of them.
GATHERED_AT_ONCE = 16 * 1024
#: Seconds that a client may keep a worker waiting within one request, in total and beside LEAST_RATE.
PATIENCE = 30.0
#: Bytes a second that a body must bring once PATIENCE is used up. A client that sends less holds a worker on purpose.
LEAST_RATE = 1024

#: Threads that wait for bytes of a client.
WAITING: set[int] = set()

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:", re.IGNORECASE)
_LINE_ENDS = (b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"\r\n\r\n")


class RequestReader:
    """The reading side of a connection. cheroot uses it as a file: `read`, `readline`, `close`."""

    def __init__(self, connection: socket.socket, most_head: int) -> None:
        """`most_head`: the largest size of a request line with its headers, in bytes."""
        self._socket = connection
        self._most_head = most_head
        self._buffer = bytearray()
        #: The offset up to which no end of a head was found.
        self._searched = 0
        #: Bytes of the next request that are waited for, once its head is here.
        self._wanted: int | None = None
        self._ended = False
        self._waited = 0.0
        self._arrived = 0
        self.bytes_read = 0
        self.closed = False

    def has_data(self) -> bool:
        return bool(self._buffer)

    def gather(self) -> bool:
        """Takes in the bytes that are there. Returns whether a worker has something to do now: a request, or an end."""
        patience = self._socket.gettimeout()
        self._socket.settimeout(0)
        try:
            while not self.ready():
                data = self._socket.recv(GATHERED_AT_ONCE)
                self._buffer += data
                self._ended = not data
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            self._ended = True
        finally:
            self._socket.settimeout(patience)
        return True

    def ready(self) -> bool:
        """True if the next request is here up to its body, with a small body whole, or if it can only be refused."""
        if self._ended:
            return True
        if self._wanted is None:
            end = self._buffer.find(b"\r\n\r\n", self._searched)
            if end < 0:
                self._searched = max(0, len(self._buffer) - 3)
                return len(self._buffer) > self._most_head or self._is_no_request()
            self._wanted = end + 4 + _small_body(bytes(self._buffer[: end + 2]))
        return len(self._buffer) >= self._wanted

    def begin(self) -> None:
        """Called when a worker takes up the next request."""
        self._searched, self._wanted, self._waited, self._arrived = 0, None, 0.0, 0

    def take_head(self) -> bytes:
        """Takes the head of the next request with its empty line. Takes all that is there if that can only be
        refused.
        """
        end = self._buffer.find(b"\r\n\r\n")
        head = self._take(len(self._buffer) if end < 0 else end + 4)
        self.bytes_read += len(head)
        return head

    def read(self, size: int) -> bytes:
        """Reads `size` bytes, or fewer at the end of the stream. Raises OSError, also for a client that is too slow."""
        parts = [self._take(size)]
        left = size - len(parts[0])
        while left and (data := self._receive(min(left, CHUNK))):
            parts.append(data)
            left -= len(data)
        self.bytes_read += size - left
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: memoryview) -> int:
        """Reads what is there, up to as many bytes as fit. Returns their number, 0 at the end of the stream. Raises
        OSError, like `read`.
        """
        if self._buffer:
            data = self._take(len(buffer))
            buffer[: len(data)] = data
            count = len(data)
        else:
            count = self._await(lambda: self._socket.recv_into(buffer))
        self.bytes_read += count
        return count

    def readline(self, size: int) -> bytes:
        """Reads up to a line's end, `size` bytes, or the end of the stream."""
        while (end := self._buffer.find(b"\n", 0, size)) < 0 and len(self._buffer) < size:
            data = self._receive(CHUNK)
            if not data:
                break
            self._buffer += data
        line = self._take(size if end < 0 else end + 1)
        self.bytes_read += len(line)
        return line

    def drop_unread(self) -> None:
        """Takes the bytes that are there and drops them. If a socket is closed before that, its client loses the
        answer.
        """
        self._buffer.clear()
        try:
            self._socket.settimeout(0)
            for _ in range(16):
                if not self._socket.recv(CHUNK):
                    return
        except OSError:
            return

    def close(self) -> None:
        self.closed = True

    def _is_no_request(self) -> bool:
        """True if no HTTP/1 client sends such a first line. Nobody knows whether more will come, so it is answered
        now.
        """
        end = self._buffer.find(b"\n", 2)
        return end >= 0 and not bytes(self._buffer[: end + 1]).endswith(_LINE_ENDS)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _receive(self, most: int) -> bytes:
        data = b""

        def receive() -> int:
            nonlocal data
            data = self._socket.recv(most)
            return len(data)

        self._await(receive)
        return data

    def _await(self, receive: Callable[[], int]) -> int:
        """Receives, and returns the number of bytes. 0 at the end of the stream. Raises TimeoutError for a client that
        is too slow.
        """
        if self._ended:
            return 0
        began, thread = time.monotonic(), threading.get_ident()
        WAITING.add(thread)
        try:
            count = receive()
        finally:
            WAITING.discard(thread)
        self._waited += time.monotonic() - began
        self._arrived += count
        self._ended = not count
        if self._waited > PATIENCE + self._arrived / LEAST_RATE:
            raise TimeoutError(f"the client sends less than {LEAST_RATE} bytes a second")
        return count


def _small_body(head: bytes) -> int:
    """Returns the size of a body that is gathered. 0 if a worker is to read it, or if there is none."""
    length = _LENGTH.search(head)
    if length is None or int(length[1]) > GATHERED or _EXPECT.search(head):
        return 0
    return int(length[1])


#: Up to this size, pieces are copied into one; a larger one is not copied.
MOST_JOINED = 64 * 1024


class ResponseWriter:
    """The writing side of a connection. cheroot uses it as a file: `write`, `close`."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._held: list[bytes] | None = None
        self.bytes_written = 0
        self.closed = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Holds what is written until the block ends, so that a client does not wake up for a head alone. Raises
        OSError.
        """
        held: list[bytes] = []
        self._held = held
        try:
            yield
        finally:
            self._held = None
            for data in [b"".join(held)] if sum(map(len, held)) <= MOST_JOINED else held:
                self._send(data)

    def write(self, data: bytes) -> int:
        """Writes bytes. Raises OSError, also for a client that takes nothing for as long as the socket's timeout."""
        if self._held is None:
            self._send(data)
        else:
            self._held.append(data)
        self.bytes_written += len(data)
        return len(data)

    def close(self) -> None:
        self.closed = True

    def _send(self, data: bytes) -> None:
        # Not `sendall`, whose timeout is for all of the data, however fast the client takes it.
        rest = memoryview(data)
        while rest:
            rest = rest[self._socket.send(rest) :]


#: Milliseconds that a worker waits for the next request of its connection, if no other connection waits for a worker.
LINGER_MS = 2


class Connection(HTTPConnection):
    RequestHandlerClass = StrictRequest
    #: True if bytes of the client are left that nobody will read.
    unread = False

    def __init__(self, server: Any, sock: socket.socket, _makefile: Any = None) -> None:
        def file(sock: socket.socket, mode: str, _size: int) -> RequestReader | ResponseWriter:
            return RequestReader(sock, server.max_request_header_size) if "r" in mode else ResponseWriter(sock)

        super().__init__(server, sock, file)

    def gather(self) -> bool:
        """Takes in the bytes that are there. Returns whether a worker has something to do now."""
        began = self.rfile.has_data()
        complete = bool(self.rfile.gather())
        if not began and self.rfile.has_data():
            # The next request gets its full time, however long the connection was idle.
            self.last_used = time.time()
        return complete

    def has_pending(self) -> bool:
        """True if bytes came that were already taken from the socket, so the socket does not become readable."""
        return bool(self.rfile.has_data())

    def communicate(self) -> bool:
        """Answers requests as long as the next one comes at once. Returns whether the connection stays open.

        Otherwise the next request would pass through two other threads: the one that waits for connections, and the
        queue.
        """
        while self._answer():
            if not self.comes_soon():
                return True
        return False

    def comes_soon(self) -> bool:
        """Waits a moment for the next request and returns whether it is there. False if another connection waits for
        this thread.
        """
        if self.server.requests.qsize or self.has_pending():
            return False
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(LINGER_MS):
            return False
        self.rfile.begin()
        return self.gather()

    def _answer(self) -> bool:
        """Answers one request. Returns whether the connection stays open."""
        self.rfile.begin()
        stays = bool(super().communicate())  # type: ignore[no-untyped-call]
        self.unread = self.unread or (not stays and self.rfile.has_data())
        return stays

    def close(self) -> None:
        if self.unread:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
            self.rfile.drop_unread()
        super().close()
