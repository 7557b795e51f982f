"""A client that sends raw bytes, and an application that notes what reaches it."""

import json
import socket
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sagelet_api.protocol.calls import Environ, StartResponse

#: Seconds after which a silent server counts as hanging.
PATIENCE = 60.0


@dataclass(frozen=True)
class Seen:
    """A request as the application saw it."""

    id: str
    method: str
    path: str
    body: bytes
    whole: bool


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes


class Witness:
    """A WSGI application that remembers all requests. It answers 200 if it can read the whole body, and else 400."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: list[Seen] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        parts, whole = [], True
        try:
            while part := environ["wsgi.input"].read(65536):
                parts.append(part)
        except (OSError, ValueError):
            whole = False
        seen = Seen(
            environ.get("HTTP_X_ID", ""), environ["REQUEST_METHOD"], environ["PATH_INFO"], b"".join(parts), whole
        )
        with self._lock:
            self._seen.append(seen)
        body = json.dumps({"id": seen.id}).encode()
        start_response("200 OK" if whole else "400 Bad Request", [("Content-Length", str(len(body)))])
        return [body]

    def take(self) -> list[Seen]:
        """Returns the requests since the last call."""
        with self._lock:
            seen, self._seen = self._seen, []
        return seen


def exchange(port: int, pieces: Sequence[bytes]) -> list[Answer]:
    """Sends pieces, ends its side, and reads all answers. Raises AssertionError for one that cannot be parsed."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = bytearray()
        try:
            for piece in pieces:
                raw.sendall(piece)
            raw.shutdown(socket.SHUT_WR)
        except TimeoutError:
            raise
        except OSError:
            pass  # The server may refuse before it has read everything.
        try:
            while data := raw.recv(65536):
                received += data
        except ConnectionResetError:
            pass
    return list(answers(bytes(received)))


def answers(data: bytes) -> Iterable[Answer]:
    """Yields the answers one after another. Interim ones (100 Continue) are left out."""
    while data:
        head, blank, rest = data.partition(b"\r\n\r\n")
        assert blank, f"an answer without an end of its headers: {data[:200]!r}"
        line, *lines = head.split(b"\r\n")
        assert line.startswith(b"HTTP/1."), f"no status line: {line[:200]!r}"
        status = int(line.split(b" ")[1])
        headers = dict(one.lower().split(b": ", 1) for one in lines)
        length = int(headers.get(b"content-length", 0))
        assert len(rest) >= length, "an answer was cut"
        body, data = rest[:length], rest[length:]
        if status != 100:
            yield Answer(status, body)
