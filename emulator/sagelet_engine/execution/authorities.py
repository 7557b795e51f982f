"""Joins the system's certificate authorities and the server's own in one file, since clients take only one file."""

import os
from pathlib import Path

#: Variables that name a file of authorities on this machine, such as a proxy's. Jobs then trust them, too.
_NAMED_BY = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


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
