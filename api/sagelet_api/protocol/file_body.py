"""A body that is a range of a file. The server hands it to the kernel where it can (sendfile)."""

import socket
from collections.abc import Iterator
from typing import BinaryIO

#: Bytes that are read at once without sendfile.
CHUNK = 256 * 1024


class FileBody:
    """A range of an open file as a WSGI body. It closes the file."""

    def __init__(self, data: BinaryIO, first: int, length: int) -> None:
        self._data = data
        self._first = first
        self._left = length
        data.seek(first)

    def __iter__(self) -> Iterator[bytes]:
        while self._left:
            chunk = self._data.read(min(CHUNK, self._left))
            if not chunk:
                raise self._cut()
            self._left -= len(chunk)
            yield chunk

    def send(self, connection: socket.socket) -> None:
        """Sends all of it without a copy in this process. Through TLS it uses ordinary writes. Raises OSError."""
        if self._left and connection.sendfile(self._data, self._first, self._left) != self._left:
            raise self._cut()
        self._left = 0

    def close(self) -> None:
        self._data.close()

    def _cut(self) -> OSError:
        return OSError("the file behind the object became shorter while it was read")
