"""Connections that no worker serves now: new ones, idle ones, and those whose request has not come whole yet.

cheroot gives a connection to a worker with its first byte, so as many slow clients as there are workers keep all others
out. Here a thread waits for all of them at once, and a worker gets a request that is there.
"""

import errno
import os
import resource
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cheroot.connections import ConnectionManager

from sagelet_api.waiting import Waiting

#: Connections of an address kept open at most. All addresses take half of the files that the process may open.
MOST_CONNECTIONS = 4096
#: Connections taken in a row before the others are looked at.
ACCEPTED = 64
#: Seconds that a request may wait for a worker before there is another worker.
STARVED = 1.0
#: Workers made at once.
MORE = 16
#: Seconds that a connection may stay open without a request. Longer than the minute after which clients' waiters ask
#: again: one that asked while its connection is closed would have to start over.
IDLE = 75.0
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Arrivals(ConnectionManager):
    """The selector thread's part of a server. `addresses`: how many the process listens on."""

    #: cheroot's, which its stubs leave out.
    _selector: Any
    _stop_requested: bool
    _from_server_socket: Callable[[Any], Any]

    def __init__(self, server: Any, addresses: int = 1) -> None:
        super().__init__(server)
        self._most = min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 // addresses)
        #: What the selector has but for the server's own socket; both change under the guard.
        self._waiting = Waiting()
        self._guard = threading.Lock()
        server.socket.setblocking(False)

    def put(self, conn: Any) -> None:
        """Called by workers: the request is answered, and the connection stays."""
        conn.last_used = time.time()
        conn.rfile.begin()
        # What came behind the last request makes no socket readable.
        if conn.has_pending() and conn.gather():
            self.server.process_conn(conn)
        else:
            self._keep(conn)

    def _run(self, expiration_interval: float) -> None:
        checked = time.time()
        while not self._stop_requested:
            try:
                active = list(self._selector.select(timeout=expiration_interval))
            except OSError:
                self._remove_invalid_sockets()
                continue
            for _, conn in active:
                if conn is self.server:
                    self._accept()
                elif conn.socket.fileno() >= 0:  # Else it made room for another just now.
                    self._gather(conn)
            now = time.time()
            if now - checked > expiration_interval:
                self._expire(now)
                self.server.relieve()
                checked = now

    def _gather(self, conn: Any) -> None:
        began = conn.rfile.has_data()
        if conn.gather():
            self._release(conn)
            self.server.process_conn(conn)
        elif conn.rfile.has_data() != began:
            with self._guard:
                self._waiting.add(conn)

    def _accept(self) -> None:
        for _ in range(ACCEPTED):
            try:
                conn = self._from_server_socket(self.server.socket)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                self._make_room()
                return
            if conn is None:
                return
            conn.last_used = time.time()
            if conn.gather():
                self.server.process_conn(conn)
                continue
            self._keep(conn)
            if len(self._waiting) > self._most:
                self._make_room()

    def _keep(self, conn: Any) -> None:
        with self._guard:
            self._waiting.add(conn)
            self._selector.register(conn.socket.fileno(), selectors.EVENT_READ, data=conn)

    def _release(self, conn: Any) -> None:
        with self._guard:
            self._waiting.remove(conn)
            self._selector.unregister(conn.socket.fileno())

    def _make_room(self) -> None:
        """Ends the connection that has kept us waiting longest: a request that comes at once is never kept out."""
        with self._guard:
            conn = self._waiting.surplus()
        if conn is not None:
            self._release(conn)
            conn.close()

    def _expire(self, now: float) -> None:
        """Ends what has brought no request for IDLE, or no whole one since its first byte for the server's timeout."""
        with self._guard:
            silent = self._waiting.expired(now - IDLE, begun=False)
            slow = self._waiting.expired(now - self.server.timeout, begun=True)
        for conn in (*silent, *slow):
            self._release(conn)
            if conn.rfile.has_data():
                with suppress(OSError):
                    conn.socket.settimeout(0)
                    conn.socket.send(_TIMED_OUT)
            conn.close()

    def _remove_invalid_sockets(self) -> None:
        """Forgets the connections whose sockets were closed behind our back."""
        for descriptor, conn in list(self._selector.connections):
            try:
                os.fstat(descriptor)
            except OSError:
                with self._guard:
                    self._waiting.remove(conn)
                    self._selector.unregister(descriptor)
