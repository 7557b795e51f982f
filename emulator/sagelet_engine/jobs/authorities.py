"""Certificate authorities for clients that take one file of them: those of the world, and the server's own."""

import os
from pathlib import Path

#: What names a file of authorities on this machine, which jobs then trust, too; a proxy's, say.
_NAMED_BY = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


def write_bundle(own: Path, target: Path) -> None:
    """Raises OSError."""
    target.write_bytes(_world().read_bytes().rstrip() + b"\n" + own.read_bytes())


def _world() -> Path:
    for name in _NAMED_BY:
        path = Path(os.environ.get(name, ""))
        if path.is_file():
            return path
    import certifi

    return Path(certifi.where())
