"""What may name a server: endpoints, accounts, regions, and names of contexts."""

import re
from urllib.parse import urlsplit

from sagelet_engine.base.errors import SettingsError

DEFAULT_ENDPOINT = "http://127.0.0.1:4599"
DEFAULT_ACCOUNT = "123456789012"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Addresses of a server that listens on all addresses of its machine.
_EVERY = ("0.0.0.0", "::")
_PORTS = {"http": 80, "https": 443}
_REGION = re.compile(r"[a-z0-9-]{1,32}")
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}")


def checked_endpoint(endpoint: str) -> str:
    """Returns the endpoint without a slash at its end. Raises SettingsError for anything but a server's URL."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise _no_endpoint(endpoint) from None
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or _is_garbled(endpoint):
        raise _no_endpoint(endpoint)
    if parts.username is not None or "?" in endpoint or "#" in endpoint:
        raise SettingsError(
            f"endpoint: write {parts.scheme}://HOST:PORT alone. Keys come from the data directory, not from the URL"
        )
    if parts.path.strip("/"):
        raise SettingsError(
            f"endpoint: {endpoint!r} has a path, and sagelet answers at the root of its port: "
            f"write {parts.scheme}://HOST:PORT alone"
        )
    # The scheme decides whether a certificate is looked at, and may be typed in capitals.
    return f"{parts.scheme}{endpoint[len(parts.scheme) :]}".rstrip("/")


def _is_garbled(text: str) -> bool:
    return not text.isprintable() or " " in text


def _no_endpoint(endpoint: str) -> SettingsError:
    return SettingsError(f"endpoint: {endpoint!r} is not an http:// or https:// URL, such as {DEFAULT_ENDPOINT}")


def checked_account(account: str) -> str:
    """Raises SettingsError."""
    if not is_account(account):
        raise SettingsError(f"account: {account!r} is not an account number: that has 12 digits")
    return account


def is_account(text: str) -> bool:
    return re.fullmatch(r"\d{12}", text, re.ASCII) is not None


def checked_region(region: str) -> str:
    """Raises SettingsError."""
    if not _REGION.fullmatch(region):
        raise SettingsError(f"region: {region!r} is not a region, such as us-east-1")
    return region


def checked_name(name: str) -> str:
    """Returns the name. Raises SettingsError for a text that cannot name a context."""
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"context: {name!r} is not a name: a name has letters, digits, `-`, `_` and `.`, 63 at most, "
            "and begins with a letter or digit"
        )
    return name


def is_same_address(one: str, other: str) -> bool:
    """True if two endpoints are the same port of the same host. All names of the loopback address count as one host."""
    return _address(one) == _address(other)


def may_lead_to(endpoint: str, served: str) -> bool:
    """True if an endpoint may be a server's own.

    It is the same address, or any host if the server listens on all addresses of its machine, as in a container.
    """
    host, port = _address(served)
    return is_same_address(endpoint, served) or (host in _EVERY and port == _address(endpoint)[1])


def _address(endpoint: str) -> tuple[str, int | None]:
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    return "localhost" if host in _LOOPBACK else host, parts.port or _PORTS.get(parts.scheme)
