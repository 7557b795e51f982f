"""How commands call the control endpoint of a server."""

import json
import ssl
import uuid
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from sagelet_api.protocol.aws_errors import MISSING_HEADER
from sagelet_api.protocol.calls import DEFAULT_REGION
from sagelet_api.servers.server import NoServer, Server, why
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.base.wire import JsonObject

TIMEOUT_S = 60
#: The service and region that requests to the control endpoints are signed for.
SERVICE = "sagelet"
_REMEDY = "Start one (`sagelet up`), or name it: --endpoint, --context"


class ServerRefused(SageletError):
    """The server answered with an error."""

    def __init__(self, message: str, code: str = "", *, missing: bool = False) -> None:
        """`code`: AWS's error code, or the HTTP status. `missing`: what the request names does not exist."""
        super().__init__(message)
        self.code = code
        self.missing = missing


def ask(server: Server, method: str, path: str, body: Any = None) -> JsonObject:
    """Returns the server's answer for a path below /_sagelet/.

    The request is signed with the server's key pair. Raises ServerRefused, NoServer.
    """
    content = None if body is None else json.dumps(body).encode()
    url = server.control_url(path)
    headers = _signed(server.keys, method, url, content, {"Content-Type": "application/json"})
    try:
        with _opener(server).open(Request(url, content, headers, method=method), timeout=TIMEOUT_S) as response:
            answer: Any = json.load(response)
    except HTTPError as error:
        missing = MISSING_HEADER in error.headers
        raise ServerRefused(_explanation(error), str(error.code), missing=missing) from error
    except (OSError, HTTPException, ValueError) as error:
        untrusted = isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)
        raise unreachable(server, error, untrusted=untrusted) from error
    if not isinstance(answer, dict):
        raise _another_program(server)
    return answer


def _another_program(server: Server) -> NoServer:
    return NoServer(f"{server.words} is not a sagelet server. {_REMEDY}")


def ask_health(server: Server) -> JsonObject:
    """Returns what the server says about itself. Raises ServerRefused, and NoServer if another program answers."""
    health = ask(server, "GET", "health")
    if not {"version", "runtime"} <= health.keys():
        raise _another_program(server)
    return health


def ask_owner(server: Server, path: str, body: JsonObject) -> JsonObject:
    """Asks for something that only the owner of the server's data directory may ask. A file that is made in the
    directory proves it.

    Raises what `ask` raises.
    """
    proof = server.data / f".proof-{uuid.uuid4().hex}"
    proof.touch(mode=0o600)
    try:
        return ask(server, "POST", path, {**body, "proof": proof.name})
    finally:
        proof.unlink(missing_ok=True)


def unreachable(server: Server, error: Exception, *, untrusted: bool = False) -> NoServer:
    remedy = _REMEDY
    if untrusted:
        remedy = "Name the data directory of the server, which has its certificate: --data"
    return NoServer(f"No sagelet server answers at {server.words}: {why(error)}. {remedy}")


def _opener(server: Server) -> OpenerDirector:
    # The server is on this machine or a neighbour, whatever proxy the environment names for the internet.
    handlers: list[Any] = [ProxyHandler({})]
    if server.authority is not None:
        handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=str(server.authority))))
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
