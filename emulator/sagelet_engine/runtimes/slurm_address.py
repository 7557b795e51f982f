"""By which address the nodes of a cluster reach the endpoint; checked at start, before a job waits for it in vain."""

import ipaddress
import socket
from dataclasses import dataclass

from sagelet_engine.errors import SettingsError

_REMEDY = "name the address or the host name by which the nodes reach this machine"


@dataclass(frozen=True)
class Address:
    #: As the nodes get it, and as it stands in the certificate.
    name: str
    #: What to listen on for it, beside --host; empty: --host has it.
    listen: tuple[str, ...]


def check_address(name: str | None, host: str, *, auth: bool, tls: bool) -> Address:
    """`name`: --slurm-address; None: --host. Raises SettingsError.

    Whoever is on the nodes' network could take a job's credentials, or its data, from an open line.
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
        raise SettingsError(f"{said}: {', '.join(found)} is no address of this machine; {_REMEDY}")
    return Address(given, _beside(host, local))


def _beside(host: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
    """One address is enough; the server listens on --host anyway."""
    return () if host in (*addresses, "localhost", "0.0.0.0", "::") else addresses[:1]


def _resolved(name: str, said: str) -> tuple[str, ...]:
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"{said}: no address is known of it; {_REMEDY}") from error
    # A link's own address has the link behind a percent sign.
    return tuple(dict.fromkeys(str(answer[4][0]).partition("%")[0] for answer in answers))


def _is_local(address: str) -> bool:
    """Whether this machine has it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True
