"""Sends the head of an answer together with the beginning of its body."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

#: Up to this size, pieces are copied into one; a larger one is not copied.
MOST_JOINED = 64 * 1024


class Outgoing:
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
