"""S3 as fast as a server can be that keeps nothing: what is measured against it is the client's own time and the
network's.

    python -m bench.null_server FILE SIZE...

Uploads are read into one piece of memory and forgotten, but for their size, one of SIZE; a download is as much of FILE,
by sendfile. There are no checks.
"""

import base64
import socket
import socketserver
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

BLOCK = 1 << 20
ETAG = '"00000000000000000000000000000000"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    file: Path
    #: Of as much of the file, in base64.
    crc32: Mapping[int, str]
    #: Of what came last: whole, or in parts so far.
    size = 0
    guard = threading.Lock()

    def do_PUT(self) -> None:
        left, memory = int(self.headers.get("Content-Length", 0)), memoryview(bytearray(BLOCK))
        with self.guard:
            Handler.size = left + (Handler.size if "partNumber" in self.path else 0)
        left -= len(self.rfile.read1(left) if left and self.rfile.peek(1) else b"")
        while left and (count := self.connection.recv_into(memory, min(left, BLOCK))):
            left -= count
        self._answer(HTTPStatus.OK, {"ETag": ETAG})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if urlsplit(self.path).query == "uploads":
            Handler.size = 0
            body = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
        else:
            body = f"<CompleteMultipartUploadResult><ETag>{ETAG}</ETag></CompleteMultipartUploadResult>".encode()
        self._answer(HTTPStatus.OK, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        self._answer(HTTPStatus.OK, {"Content-Length": str(self.size), "ETag": ETAG})

    def do_GET(self) -> None:
        first, last = 0, self.size - 1
        wanted = self.headers.get("Range")
        if wanted:
            begin, _, end = wanted.removeprefix("bytes=").partition("-")
            first, last = int(begin), int(end or last)
        headers = {"Content-Length": str(last - first + 1), "ETag": ETAG}
        if wanted:
            headers["Content-Range"] = f"bytes {first}-{last}/{self.size}"
        else:
            # Clients check it, and that takes their time.
            headers["x-amz-checksum-crc32"] = self.crc32[self.size]
        self._answer(HTTPStatus.PARTIAL_CONTENT if wanted else HTTPStatus.OK, headers)
        with self.file.open("rb") as data:
            self.connection.sendfile(data, first, last - first + 1)

    def _answer(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": "0"} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Nobody reads it."""


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address


def checksums(file: Path, sizes: Iterable[int]) -> Iterator[tuple[int, str]]:
    value = done = 0
    with file.open("rb") as data:
        for size in sorted(sizes):
            while done < size:
                block = data.read(min(BLOCK, size - done))
                value, done = zlib.crc32(block, value), done + len(block)
            yield size, base64.b64encode(value.to_bytes(4, "big")).decode()


def main() -> None:
    Handler.file = Path(sys.argv[1])
    Handler.crc32 = dict(checksums(Handler.file, map(int, sys.argv[2:])))
    with Server(("127.0.0.1", 0), Handler) as server:
        print(f"ready: http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
