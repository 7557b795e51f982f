"""How commands speak to the control endpoint of a server."""

import json
import os
from collections.abc import Callable
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

import click

from sagelet.errors import SageletError
from sagelet_api.credentials import DEFAULT_REGION, Credential

TIMEOUT_S = 60


class ServerRefused(SageletError):
    """The server answered with an error."""


class ServerUnreachable(SageletError):
    """No sagelet server answers."""


def default_account() -> str:
    """As the server tells accounts apart: by an access key that is an account number."""
    return Credential(os.environ.get("AWS_ACCESS_KEY_ID", ""), "", "").account


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options --endpoint, --account and --region."""
    for option in (
        click.option(
            "--region",
            envvar=["AWS_REGION", "AWS_DEFAULT_REGION"],
            default=DEFAULT_REGION,
            show_default=True,
            show_envvar=True,
        ),
        click.option("--account", default=default_account, help="Default: AWS_ACCESS_KEY_ID, where that is 12 digits."),
        click.option(
            "--endpoint",
            envvar="SAGELET_ENDPOINT",
            show_envvar=True,
            default="http://127.0.0.1:4599",
            show_default=True,
            help="The server.",
        ),
    ):
        command = option(command)
    return command


def job_url(endpoint: str, account: str, region: str, name: str, what: str) -> str:
    query = urlencode({"account": account, "region": region})
    return control_url(endpoint, f"jobs/{quote(name, safe='')}/{what}?{query}")


def control_url(endpoint: str, path: str) -> str:
    return f"{endpoint.rstrip('/')}/_sagelet/{path}"


def ask(method: str, url: str, body: Any = None) -> dict[str, Any]:
    """The server's answer. Raises ServerRefused, ServerUnreachable."""
    if not url.startswith(("http://", "https://")):
        raise ServerUnreachable(f"--endpoint: {url} is no http:// URL")
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method)
    # The server is this machine, whatever proxy the environment names for the world outside.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            answer: dict[str, Any] = json.load(response)
    except HTTPError as error:
        raise ServerRefused(_explanation(error)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise ServerUnreachable(
            f"No sagelet server answers at {url}: {error}. Start one (`sagelet up`), or name it: --endpoint"
        ) from error
    return answer


def _explanation(error: HTTPError) -> str:
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered {error.code} {error.reason}"
