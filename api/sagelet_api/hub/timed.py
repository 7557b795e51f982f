"""Connections whose answers have a deadline for each step: for all headers together, and for each piece of the body.

A socket's own timeout is for each read. A host that sends a byte of its headers, or of a chunk's size, in each such
time would hold its connection, and the turn of whoever waits for the answer, for days.
"""

import http.client
import io
import socket
import time
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool


class _Timed(io.RawIOBase):
    """The bytes of a socket, until a deadline. `step` begins another one."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        self._socket, self._raw = sock, raw
        #: The socket's timeout, as the connection has set it: seconds of a step.
        self._step_s = sock.gettimeout()
        self.step()

    def step(self) -> None:
        self._until = None if self._step_s is None else time.monotonic() + self._step_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Raises TimeoutError, as a read of the socket does."""
        if self._until is not None:
            left = self._until - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._timed = _Timed(sock, self.fp.detach())
        self.fp = io.BufferedReader(self._timed)

    def begin(self) -> None:
        self._timed.step()
        super().begin()

    def read1(self, n: int = -1) -> bytes:
        self._timed.step()
        return super().read1(n)


class _Connection(HTTPConnection):
    response_class = _Answer


class _SecureConnection(HTTPSConnection):
    response_class = _Answer


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


def read_by_steps(manager: urllib3.PoolManager) -> None:
    """Lets a manager's connections read by steps. A step takes the timeout of a read."""
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
