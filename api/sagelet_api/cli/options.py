"""Options that many commands have: the server, the account, the data directory, and output for programs."""

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import click

from sagelet_api.protocol.credentials import DEFAULT_REGION, Credential
from sagelet_engine.images.variants import TorchBuild
from sagelet_engine.settings import default_data_directory
from sagelet_engine.state.notice import read_notice

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_ENDPOINT = "http://127.0.0.1:4599"


@dataclass(frozen=True)
class Server:
    """A server, and the account whose jobs are meant."""

    endpoint: str
    account: str
    region: str
    #: The data directory with the server's key pair and certificate (--auth, --tls), if it belongs to the server.
    data: Path

    @classmethod
    def of(cls, data: Path, endpoint: str | None, account: str = "", region: str = "") -> "Server":
        """Returns a server. `endpoint`: None for that of the server which runs on `data`."""
        if endpoint is None:
            notice = read_notice(data)
            endpoint = DEFAULT_ENDPOINT if notice is None else notice.endpoint
        return cls(endpoint, account or default_account(), region or configured_region(), data)

    def control_url(self, path: str) -> str:
        return f"{self.endpoint}/_sagelet/{path}"

    def job_url(self, name: str, what: str) -> str:
        query = urlencode({"account": self.account, "region": self.region})
        return self.control_url(f"jobs/{quote(name, safe='')}/{what}?{query}")


def default_account() -> str:
    """Returns the account as the server determines it: an access key that is an account number."""
    return Credential(os.environ.get("AWS_ACCESS_KEY_ID", ""), "", "").account


def configured_region() -> str:
    """Returns the region that boto3 would use, from the environment or the profile; otherwise sagelet's default."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(name):
            return os.environ[name]
    if not Path(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")).expanduser().is_file():
        return DEFAULT_REGION
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        return Session().get_config_variable("region") or DEFAULT_REGION
    except BotoCoreError:  # The profile is missing or the file is garbled. The command runs anyway.
        return DEFAULT_REGION


def data_option(command: F) -> F:
    """Adds --data, as `data: Path`."""
    return click.option(
        "--data",
        envvar="SAGELET_DATA",
        show_envvar=True,
        default=default_data_directory,
        show_default="~/.local/share/sagelet",
        type=click.Path(file_okay=False, path_type=Path),
        callback=_absolute,
        help="The data directory of the server.",
    )(command)


def endpoint_option(command: F) -> F:
    return click.option(
        "--endpoint",
        envvar="SAGELET_ENDPOINT",
        show_envvar=True,
        callback=_checked_endpoint,
        help=f"The server. Default: the one that runs on --data, else {DEFAULT_ENDPOINT}.",
    )(command)


def account_option(command: F) -> F:
    return click.option(
        "--account",
        default=default_account,
        callback=_checked_account,
        help="Default: AWS_ACCESS_KEY_ID, where that is 12 digits, else 123456789012.",
    )(command)


def region_option(command: F) -> F:
    return click.option(
        "--region", default=configured_region, help="Default: the one that is configured for AWS, or us-east-1."
    )(command)


def json_option(command: F) -> F:
    """Adds --json, as `as_json: bool`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document, for programs.")(command)


def torch_build_option(command: F) -> F:
    """Adds --torch-build, as `torch_build: str`: a value of TorchBuild."""
    return click.option(
        "--torch-build",
        type=click.Choice([build.value for build in TorchBuild]),
        default=TorchBuild.AUTO.value,
        show_default=True,
        envvar="SAGELET_TORCH_BUILD",
        show_envvar=True,
        help="cpu: no CUDA; cuda: NVIDIA's libraries, 6 GB more; auto: cuda in the variants for GPUs, else cpu.",
    )(command)


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --endpoint, --account, --region and --data, as `server: Server`."""

    @functools.wraps(command)
    def with_server(*args: Any, endpoint: str | None, account: str, region: str, data: Path, **others: Any) -> Any:
        return command(*args, server=Server.of(data, endpoint, account, region), **others)

    return _with(with_server, endpoint_option, account_option, region_option, data_option)


def endpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --endpoint and --data, as `server: Server`, for commands that concern no account."""

    @functools.wraps(command)
    def with_server(*args: Any, endpoint: str | None, data: Path, **others: Any) -> Any:
        return command(*args, server=Server.of(data, endpoint), **others)

    return _with(with_server, endpoint_option, data_option)


def server_in(context: click.Context) -> Server:
    """Returns the server that an incomplete command line names, for completion."""
    given = context.params
    data = given.get("data") or default_data_directory()
    return Server.of(data, given.get("endpoint"), given.get("account") or "", given.get("region") or "")


def data_directory() -> Path:
    """Returns what --data names in the running command."""
    data: Path = click.get_current_context().params.get("data") or default_data_directory()
    return data.expanduser().absolute()


def _with(command: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def _absolute(_context: click.Context, _parameter: click.Parameter, value: Path) -> Path:
    return value.expanduser().resolve()


def _checked_endpoint(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.BadParameter(f"{value} is no http:// URL")
    return value.rstrip("/")


def _checked_account(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"\d{12}", value, re.ASCII):
        raise click.BadParameter(f"{value} is no account number: it has 12 digits")
    return value
