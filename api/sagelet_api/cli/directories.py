"""The data directory of the server that a command means, for commands that open it themselves.

Such a command and the server must mean the same directory: what is written into another one is lost on the server's
jobs. So the server is asked for the name of its present start (`instance`), which `server.json` in its directory has,
too.
"""

from pathlib import Path

from sagelet_api.cli.control_client import ServerRefused, ask_health
from sagelet_api.servers.server import Directory, NoServer, Server
from sagelet_api.servers.values import is_same_address
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.state.notice import read_notice

_REMEDY = (
    "Name its data directory (--data, --context), or run this where that directory is, as in the server's container. "
    "The option --data alone means a directory, whatever else answers"
)


class AnotherDirectory(SettingsError):
    """The data directory is not the one that the server serves, or nobody knows which that is."""


def known_directory(server: Server) -> Path:
    """Returns the server's data directory, to be read. Raises AnotherDirectory if nothing says which that is."""
    if server.directory is not Directory.OWN:
        raise AnotherDirectory(
            f"{server.words} is the server, and nothing says which data directory it has: name that with --data"
        )
    return server.data


def own_directory(server: Server) -> Path:
    """Returns the server's data directory, to be written.

    No server need run on it. Raises AnotherDirectory if the server that answers serves another directory.
    """
    _served(server)
    return server.data


def served_directory(server: Server) -> Path:
    """Returns the server's data directory, to be written while the server runs. Raises AnotherDirectory, also if no
    server runs."""
    if not _served(server):
        raise AnotherDirectory(
            f"No server runs on {server.data}, so no job would see what is written there: start one "
            f"(`sagelet up --data {server.data}`), or name the data directory of the one that runs (--data, --context)"
        )
    return server.data


def _served(server: Server) -> bool:
    """True if the server runs on its directory, False if no server runs. Raises AnotherDirectory."""
    data = known_directory(server)
    notice, instance = read_notice(data), _instance(server)
    if notice is None and instance is None:
        return False
    if notice is None or (instance or notice.instance) != notice.instance:
        raise AnotherDirectory(f"{server.words} does not serve {data}: its jobs would not see what is there. {_REMEDY}")
    if instance is None and not is_same_address(server.endpoint, notice.endpoint):
        raise AnotherDirectory(f"{notice.endpoint} serves {data}, and {server.words} does not answer. {_REMEDY}")
    return True


def _instance(server: Server) -> str | None:
    """Returns the name of the server's present start, or None if no server answers."""
    if server.address is None:
        return None
    try:
        return str(ask_health(server)["instance"])
    except (NoServer, ServerRefused, KeyError):
        return None
