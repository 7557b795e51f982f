"""Clients that cost less than the servers they ask: bytes that were made before, over raw sockets, in one loop.

Each client has one connection and one request at a time, and keeps the connection as long as the server does.
"""

import selectors
import socket
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

#: Seconds without any answer to anybody; moto searches 10,000 jobs for seven, one call after another.
PATIENCE = 120
#: Bytes of a wrong answer that are kept.
EXCERPT = 300
CHUNK = 1 << 20


@dataclass
class Outcome:
    #: Of every answered request.
    seconds: list[float] = field(default_factory=list)
    #: From the first request to the last answer.
    elapsed: float = 0.0
    #: Connections that were refused, reset, or silent for too long.
    connection_errors: int = 0
    #: Answers that are not what was asked for, and what the first said.
    wrong: int = 0
    excerpt: str = ""

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.elapsed

    def percentile(self, percent: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def request(endpoint: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    """A POST to `/`, as it goes over the wire."""
    lines = [f"Host: {urlsplit(endpoint).netloc}", *(f"{name}: {value}" for name, value in headers)]
    head = "\r\n".join(["POST / HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
    return head.encode() + body


def send(endpoint: str, requests: Sequence[bytes], clients: int, holds: bytes = b"") -> Outcome:
    """Sends every request once, `clients` at a time. A right answer has status 200 and `holds` in it."""
    address, outcome = urlsplit(endpoint), Outcome()
    crowd = _Crowd((address.hostname or "", address.port or 80), deque(requests), outcome, holds)
    began = time.perf_counter()
    crowd.run(clients)
    outcome.elapsed = time.perf_counter() - began
    return outcome


class _Client:
    """A connection, and the request that it waits for."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened
        self.unsent = b""
        self.received = b""
        self.began = 0.0

    def answer(self) -> tuple[bytes, bytes] | None:
        """Head, in lower case, and body; None while they are on their way."""
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self.received[:end].lower() + b"\r\n"
        _, _, length = head.partition(b"\r\ncontent-length:")
        assert length, f"an answer without Content-Length: {head!r}"
        body = self.received[end + 4 :]
        return (head, body) if len(body) >= int(length.split(b"\r\n", 1)[0]) else None


class _Crowd:
    def __init__(self, address: tuple[str, int], waiting: deque[bytes], outcome: Outcome, holds: bytes) -> None:
        self._address = address
        self._waiting = waiting
        self._outcome = outcome
        self._holds = holds
        self._selector = selectors.DefaultSelector()

    def run(self, clients: int) -> None:
        for _ in range(min(clients, len(self._waiting))):
            self._join()
        while self._selector.get_map():
            ready = self._selector.select(PATIENCE)
            if not ready:
                for key in list(self._selector.get_map().values()):
                    self._lost(key.data)
                self._waiting.clear()
            for key, events in ready:
                self._go_on(key.data, bool(events & selectors.EVENT_WRITE))
        self._selector.close()

    def _join(self) -> None:
        """One more connection, with its first request; where a server ends each, connecting is a part of every call."""
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(opened)
        client.began, client.unsent = time.perf_counter(), self._waiting.popleft()
        opened.connect_ex(self._address)
        self._selector.register(opened, selectors.EVENT_WRITE, client)

    def _go_on(self, client: _Client, may_write: bool) -> None:
        try:
            if may_write:
                self._write(client)
            else:
                self._read(client)
        except OSError:
            self._lost(client)

    def _write(self, client: _Client) -> None:
        client.unsent = client.unsent[client.socket.send(client.unsent) :]
        events = selectors.EVENT_WRITE if client.unsent else selectors.EVENT_READ
        self._selector.modify(client.socket, events, client)

    def _read(self, client: _Client) -> None:
        data = client.socket.recv(CHUNK)
        client.received += data
        answer = client.answer()
        if answer is None:
            if not data:
                raise ConnectionResetError
            return
        head, body = answer
        self._outcome.seconds.append(time.perf_counter() - client.began)
        if head[9:12] != b"200" or self._holds not in body:
            self._outcome.wrong += 1
            self._outcome.excerpt = self._outcome.excerpt or body[:EXCERPT].decode(errors="replace")
        if b"\r\nconnection: close" in head or head.startswith(b"http/1.0"):
            self._leave(client)
        elif self._waiting:
            client.received, client.began = b"", time.perf_counter()
            wanted = self._waiting.popleft()
            client.unsent = wanted[client.socket.send(wanted) :]
            if client.unsent:
                self._selector.modify(client.socket, selectors.EVENT_WRITE, client)
        else:
            self._leave(client)

    def _lost(self, client: _Client) -> None:
        self._outcome.connection_errors += 1
        self._leave(client)

    def _leave(self, client: _Client) -> None:
        """Another takes its place while there is something to ask."""
        self._selector.unregister(client.socket)
        client.socket.close()
        if self._waiting:
            self._join()
