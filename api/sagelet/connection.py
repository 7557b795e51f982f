"""A boto3 session for one sagelet server."""

import json
import os
import re
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, build_opener

import boto3

from sagelet.sessions import redirected_session
from sagelet_api.redirect.environment import SECRET
from sagelet_engine.base.errors import SageletError, SettingsError
from sagelet_engine.base.keys import ca_file, read_key_pair
from sagelet_engine.settings import default_data_directory

DEFAULT_ENDPOINT = "http://127.0.0.1:4599"
#: Variables with the server's endpoint. The first that is set counts.
VARIABLES = ("SAGELET_ENDPOINT", "AWS_ENDPOINT_URL")
#: Seconds that the server may take to answer.
TIMEOUT_S = 10


class NoServer(SageletError, ConnectionError):
    """No sagelet server answers at the endpoint."""


def connect_to(
    endpoint: str | None = None,
    *,
    account: str,
    region: str,
    data: Path | str | None = None,
    quick_waiters: bool = False,
) -> boto3.Session:
    """Connects to a server; see `sagelet.connect`. `quick_waiters`: see `redirected_session`."""
    endpoint = checked_endpoint(endpoint)
    directory = _data_directory(data)
    authority = _authority(endpoint, directory)
    health = _health(endpoint, authority)
    keys = read_key_pair(directory)
    if health.get("auth") and keys is None:
        raise SettingsError(
            f"{endpoint} checks signatures, and {directory} has no key pair. "
            "Name the server's data directory: connect(data=...) or SAGELET_DATA"
        )
    return redirected_session(
        endpoint,
        account=checked_account(account),
        secret=SECRET if keys is None else keys.secret,
        region=region,
        authority=authority,
        quick_waiters=quick_waiters,
    )


def checked_endpoint(endpoint: str | None) -> str:
    """Returns the endpoint, or otherwise the environment's. Raises SettingsError for a text that is not a URL."""
    found = endpoint or next((os.environ[name] for name in VARIABLES if os.environ.get(name)), DEFAULT_ENDPOINT)
    parts = urlsplit(found)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"endpoint: {found!r} is no http:// or https:// URL, such as {DEFAULT_ENDPOINT}")
    return found.rstrip("/")


def checked_account(account: str) -> str:
    """Returns a valid account number. Raises SettingsError."""
    if not re.fullmatch(r"\d{12}", account, re.ASCII):
        raise SettingsError(f"account: {account!r} is no account number: it has 12 digits")
    return account


def _data_directory(data: Path | str | None) -> Path:
    named = data or os.environ.get("SAGELET_DATA")
    return (Path(named) if named else default_data_directory()).expanduser().absolute()


def _authority(endpoint: str, directory: Path) -> str | None:
    """Returns the file of the certificate authority to trust, or None for those that Python trusts anyway."""
    path = ca_file(directory)
    if not endpoint.startswith("https:"):
        return None
    return str(path) if path.is_file() else os.environ.get("AWS_CA_BUNDLE")


def _health(endpoint: str, authority: str | None) -> Mapping[str, Any]:
    """Returns the server's health. Raises NoServer."""
    try:
        with opener(authority).open(f"{endpoint}/_sagelet/health", timeout=TIMEOUT_S) as response:
            health = json.load(response)
    except (OSError, HTTPException, ValueError) as error:
        raise NoServer(f"No sagelet server answers at {endpoint}: {error}. {_remedy(error)}") from error
    if not isinstance(health, dict) or "version" not in health:
        raise NoServer(f"{endpoint} is no sagelet server. {_remedy(None)}")
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
