"""The certificate authorities that hosts trust if the server has --tls: its own, and the system's.

Clients take only one file, so the second one joins both.
"""

import os
import shutil
from pathlib import Path

#: The file with the server's own authority, in the host's directory of configuration.
CA_FILE = "sagelet-ca.pem"
#: The file beside CA_FILE that holds this authority and the system's.
CA_BUNDLE = "sagelet-ca-bundle.pem"
#: Variables that name a file of authorities on this machine, such as a proxy's. Jobs then trust them, too.
_NAMED_BY = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


def write_authorities(own: Path | None, directory: Path) -> None:
    """Writes CA_FILE and CA_BUNDLE to a host's directory. `own`: the server's authority, or None without --tls, which
    writes nothing. Raises OSError.
    """
    if own is None:
        return
    shutil.copyfile(own, directory / CA_FILE)
    write_bundle(own, directory / CA_BUNDLE)


def write_bundle(own: Path, target: Path) -> None:
    """Writes the system's authorities, then those of the file `own`, to `target`. Raises OSError."""
    target.write_bytes(_world().read_bytes().rstrip() + b"\n" + own.read_bytes())


def _world() -> Path:
    for name in _NAMED_BY:
        path = Path(os.environ.get(name, ""))
        if path.is_file():
            return path
    import certifi

    return Path(certifi.where())
