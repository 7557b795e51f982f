"""Which server a command speaks to, and as whom."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from sagelet_engine.settings import default_data_directory

F = TypeVar("F", bound=Callable[..., Any])
_DATA = "sagelet.data"


def checked_endpoint(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.BadParameter(f"{value} is no http:// URL")
    return value.rstrip("/")


def checked_account(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"\d{12}", value, re.ASCII):
        raise click.BadParameter(f"{value} is no account number: it has 12 digits")
    return value


def endpoint_option(command: F) -> F:
    return click.option(
        "--endpoint",
        envvar="SAGELET_ENDPOINT",
        show_envvar=True,
        default="http://127.0.0.1:4599",
        show_default=True,
        callback=checked_endpoint,
        help="The server.",
    )(command)


def data_option(command: F) -> F:
    """--data, which no command takes: see `data_directory`."""
    return click.option(
        "--data",
        envvar="SAGELET_DATA",
        show_envvar=True,
        default=default_data_directory,
        show_default=True,
        type=click.Path(file_okay=False, path_type=Path),
        expose_value=False,
        callback=_remember,
        help="The server's data directory, for its key pair and its certificate (--auth, --tls).",
    )(command)


def data_directory() -> Path:
    """What --data names in the command that runs, also where the command takes it itself."""
    context = click.get_current_context()
    data: Path = context.meta.get(_DATA) or context.params.get("data") or default_data_directory()
    return data.expanduser().absolute()


def _remember(context: click.Context, _parameter: click.Parameter, value: Path) -> None:
    context.meta[_DATA] = value.expanduser().absolute()
