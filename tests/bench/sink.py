"""The floor of S3's figures: a server that keeps nothing. It reads what a client sends, and forgets it.

sink.py FILE

Every object has the bytes of FILE, which the kernel sends. A client's own cost is what it takes with this server. Only
an object's checksum comes back, because a client that gets one computes it, too.
"""

import re
import socket
import sys
import threading
from typing import BinaryIO, ClassVar

#: Bytes that are read at once.
PIECE = 1 << 20
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_RANGE = re.compile(rb"\r\nrange: *bytes=([0-9]+)-([0-9]*)\r\n", re.IGNORECASE)
_CHECKSUM = re.compile(rb"\r\n(x-amz-checksum-(?:crc|sha)[^\r]*)", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:", re.IGNORECASE)
_ETAG = '"d41d8cd98f00b204e9800998ecf8427e"'
_BEGUN = b"<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>"
_COMPLETED = f"<CompleteMultipartUploadResult><ETag>{_ETAG}</ETag></CompleteMultipartUploadResult>".encode()


class Connection:
    """Answers the requests of one connection."""

    #: The header with the checksum of each object, by path.
    checksums: ClassVar[dict[bytes, bytes]] = {}

    def __init__(self, connection: socket.socket, file: BinaryIO, size: int) -> None:
        self._socket = connection
        self._file = file
        self._size = size
        self._memory = memoryview(bytearray(PIECE))
        self._ahead = b""

    def run(self) -> None:
        with self._socket:
            while head := self._head():
                method, target, _ = head.split(b" ", 2)
                path, _, query = target.partition(b"?")
                if _EXPECT.search(head):
                    self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                found = _LENGTH.search(head)
                self._drop(int(found[1]) if found else 0)
                if method in (b"GET", b"HEAD"):
                    self._send(head, path, whole=method == b"GET")
                    continue
                given = _CHECKSUM.search(head)
                self.checksums[path] = given[1] if given and b"partNumber" not in query else b""
                self._answer(query, method)

    def _head(self) -> bytes:
        data = self._ahead
        while (end := data.find(b"\r\n\r\n")) < 0:
            more = self._socket.recv(PIECE)
            if not more:
                return b""
            data += more
        head, self._ahead = data[: end + 2], data[end + 4 :]
        return head

    def _drop(self, size: int) -> None:
        size -= len(self._ahead)
        self._ahead = b""
        while size > 0:
            count = self._socket.recv_into(self._memory[:size])
            if not count:
                raise ConnectionError("the body ended early")
            size -= count

    def _answer(self, query: bytes, method: bytes) -> None:
        body = b""
        if method == b"POST":
            body = _COMPLETED if b"uploadId" in query else _BEGUN
        head = f"HTTP/1.1 200 OK\r\nETag: {_ETAG}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._socket.sendall(head.encode() + body)

    def _send(self, head: bytes, path: bytes, *, whole: bool) -> None:
        first, last, status = 0, self._size - 1, "200 OK"
        if found := _RANGE.search(head):
            first, last, status = int(found[1]), min(int(found[2] or last), last), "206 Partial Content"
        length = last - first + 1
        lines = [
            f"HTTP/1.1 {status}", f"ETag: {_ETAG}", "Last-Modified: Sun, 22 Nov 2026 12:00:00 GMT",
            "Accept-Ranges: bytes", f"Content-Length: {length}",
        ]  # fmt: skip
        if found:
            lines.append(f"Content-Range: bytes {first}-{last}/{self._size}")
        elif checksum := self.checksums.get(path):
            lines.append(checksum.decode())
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        if whole and length:
            self._socket.sendfile(self._file, first, length)


def main(path: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(f"ready: http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Each connection has its own place in the file.
        file = open(path, "rb", buffering=0)  # noqa: SIM115
        one = Connection(connection, file, file.seek(0, 2))
        threading.Thread(target=one.run, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])
