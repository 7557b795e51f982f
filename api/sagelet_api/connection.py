"""One client's connection."""

import select
import socket
import time
from contextlib import suppress
from typing import Any

from cheroot.server import HTTPConnection

from sagelet_api.incoming import Incoming
from sagelet_api.outgoing import Outgoing
from sagelet_api.strict_request import StrictRequest

#: Milliseconds that a worker waits for the next request of its connection while no other connection waits for a worker.
LINGER_MS = 2


class Connection(HTTPConnection):
    RequestHandlerClass = StrictRequest
    #: Whether something of the client's is left that nobody will read.
    unread = False

    def __init__(self, server: Any, sock: socket.socket, _makefile: Any = None) -> None:
        def file(sock: socket.socket, mode: str, _size: int) -> Incoming | Outgoing:
            return Incoming(sock, server.max_request_header_size) if "r" in mode else Outgoing(sock)

        super().__init__(server, sock, file)

    def gather(self) -> bool:
        """Takes in what is there; whether a worker has something to do now."""
        began = self.rfile.has_data()
        complete = bool(self.rfile.gather())
        if not began and self.rfile.has_data():
            # However long the connection was idle, its next request has all of its time.
            self.last_used = time.time()
        return complete

    def has_pending(self) -> bool:
        """Whether something came that makes the socket readable no more."""
        return bool(self.rfile.has_data())

    def communicate(self) -> bool:
        """Answers requests as long as they come at once; whether the connection stays open.

        Through the thread that waits for connections, and the queue, the next request would go by two other threads.
        """
        while self._answer():
            if not self.comes_soon():
                return True
        return False

    def comes_soon(self) -> bool:
        """Whether the next request is there in a moment. No other connection may wait for this thread meanwhile."""
        if self.server.requests.qsize or self.has_pending():
            return False
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if not poll.poll(LINGER_MS):
            return False
        self.rfile.begin()
        return self.gather()

    def _answer(self) -> bool:
        """One request; whether the connection stays open."""
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
