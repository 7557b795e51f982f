"""Connections that no worker serves now: new ones, idle ones, and those whose request is incomplete.

cheroot gives a connection to a worker with its first byte, so slow clients, one for each worker, would keep all others
out. Here one thread waits for all connections, and a worker gets only complete requests.

Half of the places are for loopback and half for all other addresses. Each side may take what the other does not use. So
no flood from containers, or from another machine, takes the places of programs on this one. Connections are ordered by
how long they have waited, so the oldest is found at once.
"""

import errno
import os
import resource
import selectors
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cheroot.connections import ConnectionManager

from sagelet_api.protocol.header_rules import is_loopback


class Waiting:
    """Waiting connections. `add` them in the order of `last_used`. Not thread-safe."""

    def __init__(self) -> None:
        #: By two facts: loopback or not, and whether the first byte of a request came. In each queue the
        #: longest-waiting connection is first.
        self._lines: dict[tuple[bool, bool], OrderedDict[Any, None]] = {
            (near, begun): OrderedDict() for near in (True, False) for begun in (True, False)
        }
        self._line_of: dict[Any, OrderedDict[Any, None]] = {}

    def __len__(self) -> int:
        return len(self._line_of)

    def add(self, conn: Any) -> None:
        """Adds a connection. One that is here already and has begun its request since moves to the other queue."""
        self.remove(conn)
        line = self._lines[is_loopback(conn.remote_addr), conn.rfile.has_data()]
        line[conn] = None
        self._line_of[conn] = line

    def remove(self, conn: Any) -> None:
        line = self._line_of.pop(conn, None)
        if line is not None:
            del line[conn]

    def surplus(self) -> Any:
        """Returns the connection to close to make room, or None if nothing waits. It is the longest-waiting one of the
        side with more places.
        """
        near = self._count(True) >= self._count(False)
        fronts = [next(iter(self._lines[near, begun])) for begun in (True, False) if self._lines[near, begun]]
        return min(fronts, key=lambda conn: conn.last_used, default=None)

    def expired(self, before: float, *, begun: bool) -> list[Any]:
        """Returns the connections that have waited since before a moment. `begun`: those that brought a part of a
        request.
        """
        found = []
        for near in (True, False):
            for conn in self._lines[near, begun]:
                if conn.last_used > before:
                    break
                found.append(conn)
        return found

    def _count(self, near: bool) -> int:
        return len(self._lines[near, True]) + len(self._lines[near, False])


#: The most connections that an address keeps open. All addresses together take half of the files that the process may
#: open.
MOST_CONNECTIONS = 4096
#: Connections that are accepted in a row before the others are looked at.
ACCEPTED = 64
#: Seconds that a request may wait for a worker before another worker is made.
STARVED = 1.0
#: Workers that are made at once.
MORE = 16
#: Seconds that a connection may stay open without a request. It is longer than the minute after which clients' waiters
#: ask again: a waiter whose connection is being closed as it asks would have to start over.
IDLE = 75.0
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class BoundedConnectionManager(ConnectionManager):
    """The part of a server that runs in the selector's thread. `addresses`: how many addresses the process listens
    on.
    """

    #: Attributes of cheroot's class that its stubs leave out.
    _selector: Any
    _stop_requested: bool
    _from_server_socket: Callable[[Any], Any]

    def __init__(self, server: Any, addresses: int = 1) -> None:
        super().__init__(server)
        self._most = min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 // addresses)
        #: The selector's connections, without the server's own socket. Both change under the guard.
        self._waiting = Waiting()
        self._guard = threading.Lock()
        server.socket.setblocking(False)

    def put(self, conn: Any) -> None:
        """Takes back a connection whose request is answered. Called by workers."""
        conn.last_used = time.time()
        conn.rfile.begin()
        # Bytes that came with the last request do not make the socket readable.
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
                elif conn.socket.fileno() >= 0:  # Otherwise it was closed to make room for another.
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
        """Closes the longest-waiting connection, so that a client whose request comes at once is never kept out."""
        with self._guard:
            conn = self._waiting.surplus()
        if conn is not None:
            self._release(conn)
            conn.close()

    def _expire(self, now: float) -> None:
        """Closes connections that brought no request for IDLE, or no complete one within the server's timeout after its
        first byte.
        """
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
        """Forgets connections whose sockets were closed by other code."""
        for descriptor, conn in list(self._selector.connections):
            try:
                os.fstat(descriptor)
            except OSError:
                with self._guard:
                    self._waiting.remove(conn)
                    self._selector.unregister(descriptor)
