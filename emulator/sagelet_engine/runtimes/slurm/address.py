"""The address by which a cluster's nodes reach the endpoint. The server checks it at its start, not when a job runs."""

import ipaddress
import socket
from dataclasses import dataclass

from sagelet_engine.base.errors import SettingsError

_REMEDY = "name the address or the host name by which the nodes reach this machine"


@dataclass(frozen=True)
class Address:
    #: The name that the nodes get, and that the certificate has.
    name: str
    #: Addresses to listen on beside --host. Empty if --host covers the name.
    listen: tuple[str, ...]


def check_address(name: str | None, host: str, *, auth: bool, tls: bool) -> Address:
    """Returns the address that nodes use. `name`: --slurm-address, or None for --host. Raises SettingsError.

    A connection without encryption is refused: it would show a job's credentials and data to the nodes' network.
    """
    given = name or host
    said = f"--slurm-address {name}" if name else f"--host {host} (there is no --slurm-address)"
    if given in ("0.0.0.0", "::"):
        raise SettingsError(f"{said}: {_REMEDY} with --slurm-address")
    found = _resolved(given, said)
    if all(ipaddress.ip_address(one).is_loopback for one in found):
        return Address(given, _beside(host, found))
    if not (auth and tls):
        missing = " and ".join(option for option, there in (("--auth", auth), ("--tls", tls)) if not there)
        raise SettingsError(f"{said}: jobs' data and keys would cross the network; add {missing}")
    local = tuple(one for one in found if _is_local(one))
    if not local:
        raise SettingsError(f"{said}: {', '.join(found)} is not an address of this machine; {_REMEDY}")
    return Address(given, _beside(host, local))


def _beside(host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
    """Returns one of the addresses, or none if --host covers one already."""
    return () if host in (*addresses, "localhost", "0.0.0.0", "::") else addresses[:1]


def _resolved(name: str, said: str) -> tuple[str, ...]:
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"{said}: this name has no address; {_REMEDY}") from error
    # A link-local address is followed by a percent sign and the link's name.
    return tuple(dict.fromkeys(str(answer[4][0]).partition("%")[0] for answer in answers))


def _is_local(address: str) -> bool:
    """True if this machine has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True
