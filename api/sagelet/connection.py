"""A boto3 session for one sagelet server."""

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, build_opener

import boto3
from botocore.loaders import Loader

from sagelet.sessions import redirected_session
from sagelet_api.redirect.environment import SECRET
from sagelet_api.servers.rule import Given, choose
from sagelet_api.servers.server import NoServer, Server, why
from sagelet_api.servers.values import checked_account
from sagelet_engine.base.errors import SettingsError

#: Seconds that the server may take to answer.
TIMEOUT_S = 10


def connect_to(
    endpoint: str | None = None,
    *,
    account: str | None = None,
    region: str | None = None,
    data: Path | str | None = None,
    context: str | None = None,
    loader: Loader | None = None,
) -> boto3.Session:
    """Connects to a server; see `sagelet.connect`. `loader`: see `redirected_session`."""
    server = server_named(endpoint, account=account, region=region, data=data, context=context)
    authority = None if server.authority is None else str(server.authority)
    health = _health(server, authority)
    keys = server.keys
    if health.get("auth") and keys is None:
        raise SettingsError(
            f"{server.words} checks signatures, and {server.data} has no key pair. "
            "Name the server's data directory: connect(data=...) or SAGELET_DATA"
        )
    return redirected_session(
        server.endpoint,
        account=server.account,
        secret=SECRET if keys is None else keys.secret,
        region=server.region,
        authority=authority,
        loader=loader,
    )


def server_named(
    endpoint: str | None,
    *,
    account: str | None = None,
    region: str | None = None,
    data: Path | str | None = None,
    context: str | None = None,
) -> Server:
    """The server that the arguments mean, or else the environment or a context. Raises SettingsError."""
    directory = None if data is None else Path(data).expanduser().absolute()
    if account is not None:
        checked_account(account)
    # An empty text says nothing, as an empty variable.
    return choose(Given(context, endpoint or None, directory, account, region), as_aws=False)


def _health(server: Server, authority: str | None) -> Mapping[str, Any]:
    """Returns the server's health. Raises NoServer."""
    try:
        with opener(authority).open(server.control_url("health"), timeout=TIMEOUT_S) as response:
            health = json.load(response)
    except (OSError, HTTPException, ValueError) as error:
        raise NoServer(f"No sagelet server answers at {server.words}: {why(error)}. {_remedy(error)}") from error
    if not isinstance(health, dict) or "version" not in health:
        raise NoServer(f"{server.words} is not a sagelet server. {_remedy(None)}")
    return health


def opener(authority: str | None) -> OpenerDirector:
    """Opens requests to the server without a proxy, because the server is on this machine or near it."""
    handlers: list[Any] = [ProxyHandler({})]
    if authority is not None:
        handlers.append(HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
    return build_opener(*handlers)


def _remedy(error: Exception | None) -> str:
    if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
        return "Name its data directory, which has its certificate authority: connect(data=...) or SAGELET_DATA"
    return "Start one (`sagelet up`), or name it: connect('http://HOST:PORT') or SAGELET_ENDPOINT"
