"""How a server of this machine is called."""

import ipaddress
import re

#: Names by which a server on this machine is reached from the machine and from its containers.
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})
#: RFC 9110, 7.2: a name or an address, and a port. No user, no path, nothing behind an address.
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?P<port>:[0-9]{1,5})?", re.IGNORECASE
)


def host_name(host: str) -> str:
    """The name in a Host header, in lower case, without brackets, port and last dot; empty for what is no Host."""
    found = _HOST.fullmatch(host)
    if found is None:
        return ""
    if found["address"] is None:
        return found["name"].lower()
    address = found["address"].lower()
    return address if ":" in address and is_address(address) else ""


def host_port(host: str) -> str:
    """`:4599`, or nothing."""
    found = _HOST.fullmatch(host)
    return (found["port"] or "") if found else ""


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(address: str | None) -> bool:
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)
