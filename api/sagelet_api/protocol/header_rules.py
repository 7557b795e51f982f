"""Rules of headers, in requests and in answers: characters of names and values, and the hosts that Host may name.

Source: RFC 9110, 5.1 (names are tokens) and 5.5 (values: no controls but tabs; octets above 127 are opaque).
"""

import ipaddress
import re

#: Names at which this machine and its containers reach a server on this machine.
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})
#: RFC 9110, 7.2: a name or an address, and a port. There is no user, no path, and nothing after an address.
_HOST = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?P<port>:[0-9]{1,5})?", re.IGNORECASE
)


def host_name(host: str) -> str:
    """Returns the name in a Host header: lower case, without brackets, port and last dot. Empty for a malformed
    Host.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return ""
    if found["address"] is None:
        return found["name"].lower()
    address = found["address"].lower()
    return address if ":" in address and is_address(address) else ""


def host_port(host: str) -> str:
    """Returns the port with its colon, `:4599`, or an empty text."""
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


TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
VALUE = r"[\t\x20-\x7e\x80-\xff]*"

_NAME = re.compile(TOKEN)
_VALUE = re.compile(VALUE)
#: RFC 9112, 4: three digits, and a phrase that clients ignore.
_STATUS = re.compile(rf"[1-5][0-9]{{2}} {VALUE}")


class IllegalHeader(ValueError):
    """A handler's mistake: its answer could be read as more than one."""


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """True if the text can be a header's value. It holds octets: each character stands for one."""
    return _VALUE.fullmatch(text) is not None


def check_head(status: str, headers: list[tuple[str, str]]) -> None:
    """Checks the head of an answer before it is written. Raises IllegalHeader."""
    if not _STATUS.fullmatch(status):
        raise IllegalHeader(f"{status!r} is not a status line.")
    for name, value in headers:
        if not is_name(name):
            raise IllegalHeader(f"{name!r} is not the name of a header.")
        if not is_value(value):
            raise IllegalHeader(f"{value!r} cannot be the header {name}.")
