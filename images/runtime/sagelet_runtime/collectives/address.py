"""Finds the address at which the other workers reach this one."""

from __future__ import annotations

import ipaddress
import socket

#: TEST-NET-1 (RFC 5737). Connecting a UDP socket sends nothing. It asks the kernel which interface it would use.
_ELSEWHERE = "192.0.2.1"


def own_address(master: str, port: int, spans_hosts: bool) -> str:
    """Returns the address of the interface that reaches `master`. Raises OSError if there is no way to it.

    A host's /etc/hosts often maps its own name to 127.0.1.1, which no other host can reach. Then the address of the
    interface that leads elsewhere is returned.
    """
    found = source_address(master, port)
    if found is None:
        raise OSError(f"MASTER_ADDR={master} cannot be resolved or has no route from here")
    if spans_hosts and is_loopback(found) and not _names_loopback(master):
        return source_address(_ELSEWHERE, port) or found
    return found


def source_address(host: str, port: int) -> str | None:
    """Returns this machine's end of a connection to `host`, or None if there is no way to it."""
    try:
        candidates = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, target in candidates:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.connect(target)
            except OSError:
                continue
            return str(probe.getsockname()[0])
    return None


def is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _names_loopback(master: str) -> bool:
    try:
        return is_loopback(master)
    except ValueError:
        return master == "localhost"
