"""How commands call the control endpoint of a server."""

import json
import ssl
import uuid
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from sagelet_api.cli.options import Server, data_directory
from sagelet_api.protocol.credentials import DEFAULT_REGION
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.keys import KeyPair, ca_file, read_key_pair

TIMEOUT_S = 60
#: The service and region that requests to the control endpoints are signed for.
SERVICE = "sagelet"


class ServerRefused(SageletError):
    """The server answered with an error."""

    def __init__(self, message: str, code: str = "") -> None:
        """`code`: AWS's error code, or the HTTP status."""
        super().__init__(message)
        self.code = code


class ServerUnreachable(SageletError):
    """No sagelet server answers."""


def ask(method: str, url: str, body: Any = None, *, data: Path | None = None) -> dict[str, Any]:
    """Returns the server's answer to a request that is signed with the key pair of a data directory, by default that of
    --data.

    Raises ServerRefused, ServerUnreachable.
    """
    content = None if body is None else json.dumps(body).encode()
    directory = data or data_directory()
    headers = _signed(read_key_pair(directory), method, url, content, {"Content-Type": "application/json"})
    try:
        with _opener(url, directory).open(Request(url, content, headers, method=method), timeout=TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)
    except HTTPError as error:
        raise ServerRefused(_explanation(error), str(error.code)) from error
    except (OSError, HTTPException, ValueError) as error:
        untrusted = isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)
        raise unreachable(url, error, untrusted=untrusted) from error
    return answer


def ask_owner(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Asks for something that only the owner of the server's data directory may ask. A file that is made in the
    directory proves it.

    Raises what `ask` raises.
    """
    proof = server.data / f".proof-{uuid.uuid4().hex}"
    proof.touch(mode=0o600)
    try:
        return ask("POST", server.control_url(path), {**body, "proof": proof.name}, data=server.data)
    finally:
        proof.unlink(missing_ok=True)


def unreachable(url: str, error: Exception, *, untrusted: bool = False) -> ServerUnreachable:
    remedy = "Start one (`sagelet up`), or name it: --endpoint"
    if untrusted:
        remedy = "Name the data directory of the server, which has its certificate: --data"
    return ServerUnreachable(f"No sagelet server answers at {url}: {error}. {remedy}")


def authority_of(endpoint: str, directory: Path) -> Path | None:
    """Returns the certificate authority to trust for an https endpoint, if the data directory has one."""
    path = ca_file(directory)
    return path if endpoint.startswith("https:") and path.is_file() else None


def _opener(url: str, directory: Path) -> OpenerDirector:
    # The server is on this machine, whatever proxy the environment names for the internet.
    handlers: list[Any] = [ProxyHandler({})]
    authority = authority_of(url, directory)
    if authority is not None:
        handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=str(authority))))
    return build_opener(*handlers)


def _signed(keys: KeyPair | None, method: str, url: str, data: bytes | None, headers: dict[str, str]) -> dict[str, str]:
    """Returns signed headers. A server without --auth needs no signature, and one with another key says what to do."""
    if keys is None:
        return headers
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest(method, url, headers, data or b"")
    SigV4Auth(Credentials(keys.access_key, keys.secret), SERVICE, DEFAULT_REGION).add_auth(request)
    return dict(request.headers.items())


def _explanation(error: HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {error.code} {error.reason}"
