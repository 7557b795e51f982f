"""The address at which `sagelet up` will listen: tried before anything is made for the server."""

import errno
import socket
from contextlib import suppress
from typing import Any

from sagelet_engine.base.errors import SettingsError


def check_address(host: str, port: int) -> None:
    """Raises AddressInUse, and SettingsError for an address that is not this machine's. Leaves the port free."""
    try:
        _try_one_of(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            from sagelet_api.http.server import AddressInUse

            raise AddressInUse(host, port) from error
        raise SettingsError(f"Cannot listen on {host}:{port} (--host, --port): {error}") from error


def _try_one_of(host: str, port: int) -> None:
    """Binds a socket to one of the host's addresses, as the server will. Raises OSError if it can bind to none."""
    *others, last = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, address in others:
        with suppress(OSError):
            _bind(family, address)
            return
    _bind(last[0], last[4])


def _bind(family: int, address: Any) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        # Connections of an earlier server may still be closing.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind(address)
