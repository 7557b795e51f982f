"""Talking to a running server's control endpoint."""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from sagelet.errors import SageletError

TIMEOUT_S = 60


class ServerRefused(SageletError):
    """The server answered with an error."""


class ServerUnreachable(SageletError):
    """No sagelet server answers."""


def ask(method: str, url: str) -> dict[str, Any]:
    """The server's answer. Raises ServerRefused, ServerUnreachable."""
    if not url.startswith(("http://", "https://")):
        raise ServerUnreachable(f"--endpoint: {url} is no http:// URL")
    # The server is this machine, whatever proxy the environment names for the world outside.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(Request(url, method=method), timeout=TIMEOUT_S) as response:
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
