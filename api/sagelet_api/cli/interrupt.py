"""`sagelet interrupt`: a spot interruption of a running job."""

import json
import os
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


@click.command()
@click.argument("name")
@click.option(
    "--endpoint",
    envvar="SAGELET_ENDPOINT",
    show_envvar=True,
    default="http://127.0.0.1:4599",
    show_default=True,
    help="The server.",
)
@click.option("--account", default=default_account, help="Default: AWS_ACCESS_KEY_ID, where that is 12 digits.")
@click.option(
    "--region", envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], default=DEFAULT_REGION, show_default=True, show_envvar=True
)
def interrupt(name: str, endpoint: str, account: str, region: str) -> None:
    """Interrupt the managed spot job NAME: SIGTERM, the grace, a last sync of checkpoints; then it starts again."""
    query = urlencode({"account": account, "region": region})
    answer = post(f"{endpoint.rstrip('/')}/_sagelet/jobs/{quote(name, safe='')}/interrupt?{query}")
    click.echo(f"{name}: {answer['SecondaryStatus']} in its attempt {answer['Attempt']}")


def post(url: str) -> dict[str, Any]:
    """The server's answer. Raises ServerRefused, ServerUnreachable."""
    if not url.startswith(("http://", "https://")):
        raise ServerUnreachable(f"--endpoint: {url} is no http:// URL")
    # The server is this machine, whatever proxy the environment names for the world outside.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(Request(url, method="POST"), timeout=TIMEOUT_S) as response:
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
