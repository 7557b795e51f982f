"""A server as clients of this machine mean it: its address, its data directory, and whose jobs are meant."""

import os
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from urllib.parse import quote, urlencode

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.keys import KeyPair, ca_file, read_key_pair


class NoServer(SageletError, ConnectionError):
    """No sagelet server answers."""


def why(error: BaseException) -> str:
    """Returns why a server did not answer, `Connection refused`. The libraries' own texts repeat its address.

    An error of a library has the system's error behind it: as its cause or context, or as `reason` (urllib).
    """
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError) and behind.strerror:
            return behind.strerror
        reason = getattr(behind, "reason", None)
        behind = reason if isinstance(reason, BaseException) else behind.__cause__ or behind.__context__
    return str(error).rstrip(".")


class Origin(Enum):
    """What names a server."""

    #: It is the default server.
    NOTHING = "nothing"
    COMMAND_LINE = "the command line"
    ENVIRONMENT = "the environment"
    CURRENT_CONTEXT = "the current context"


class Directory(Enum):
    """How a data directory belongs to a server."""

    #: It is known to be the server's own.
    OWN = "own"
    #: SAGELET_DATA names it. Nobody says that it is the server's own.
    NAMED = "named"
    #: Nothing names it. Its key pair and its certificate are tried.
    TRIED = "tried"


@dataclass(frozen=True)
class Server:
    """`rule.choose` makes it."""

    #: None if no server runs on `data`.
    address: str | None
    data: Path
    account: str
    region: str
    #: What has named it, for people: `SAGELET_DATA`, `context ci`. Empty for the default server, and for one whose
    #: endpoint was typed.
    named_by: str = ""
    origin: Origin = Origin.COMMAND_LINE
    directory: Directory = Directory.OWN
    #: The certificate authority that a context names.
    ca: Path | None = None
    #: The endpoint of another server that seems to run on `data`, or empty: two names may mean two servers.
    at_data: str = ""

    @property
    def endpoint(self) -> str:
        """`http://127.0.0.1:4599`. Raises NoServer."""
        if self.address is None:
            named = f" ({self.named_by})" if self.named_by else ""
            raise NoServer(
                f"No sagelet server runs on {self.data}{named}. Start one (`sagelet up --data {self.data}`), "
                "or name the endpoint of one: --endpoint"
            )
        return self.address

    @property
    def words(self) -> str:
        """`http://ci:4599 (context ci)`, for people."""
        place = self.address or f"none runs on {self.data}"
        return f"{place} ({self.named_by})" if self.named_by else place

    @property
    def doubt(self) -> str:
        """What to tell people if the endpoint and the data directory may be of two servers. Else empty.

        This is not an error: an address of this machine may lead to another port of it (a container's, a tunnel's).
        """
        if not self.at_data:
            return ""
        return (
            f"The endpoint is {self.address}, but the server that runs on the data directory {self.data} is "
            f"{self.at_data}. Requests go to {self.address}, with the keys of {self.data}. Unless both addresses lead "
            "to one server, name only one of the two (SAGELET_ENDPOINT or --endpoint, SAGELET_DATA or --data)"
        )

    @property
    def keys(self) -> KeyPair | None:
        """Returns the key pair that signs requests. Raises SettingsError if the file holds no key pair."""
        return read_key_pair(self.data)

    @property
    def authority(self) -> Path | None:
        """Returns the file of the certificate authority to trust for https, or None for Python's own authorities."""
        if not self.endpoint.startswith("https:"):
            return None
        if self.ca is not None:
            return self.ca
        if (own := ca_file(self.data)).is_file():
            return own
        bundle = os.environ.get("AWS_CA_BUNDLE")
        return Path(bundle) if bundle else None

    def at(self, address: str) -> "Server":
        """Returns the same server with the endpoint at which it runs now."""
        return replace(self, address=address)

    def control_url(self, path: str) -> str:
        return f"{self.endpoint}/_sagelet/{path}"

    def job_path(self, kind: str, name: str, what: str) -> str:
        """Returns the path of a job's control endpoint, below /_sagelet/. `kind`: jobs, processing, tuning."""
        query = urlencode({"account": self.account, "region": self.region})
        return f"{kind}/{quote(name, safe='')}/{what}?{query}"
