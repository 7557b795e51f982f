"""Options that many commands have: the server, the account, the data directory, and output for programs."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from sagelet_api.cli.text import say
from sagelet_api.servers import values
from sagelet_api.servers.contexts import DEFAULT, read_contexts
from sagelet_api.servers.rule import Given, choose, is_expected
from sagelet_api.servers.server import Server
from sagelet_api.servers.values import DEFAULT_ACCOUNT, DEFAULT_ENDPOINT
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.images.variants import TorchBuild

F = TypeVar("F", bound=Callable[..., Any])
#: Key in a click context's `meta`: the server that the command means, and True if a message has named it already.
SERVER, TOLD = "sagelet.server", "sagelet.told"


class ContextName(click.ParamType[str]):
    """The name of a context, or `default`; completed."""

    name = "context"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return values.checked_name(value)
        except SettingsError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        try:
            names = [*read_contexts().named, DEFAULT]
        except SettingsError:  # A word on the terminal would garble the line that is being typed.
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def context_option(command: F) -> F:
    """--context, as `context_name: str | None`."""
    return click.option(
        "--context",
        "context_name",
        type=ContextName(),
        metavar="NAME",
        envvar="SAGELET_CONTEXT",
        show_envvar=True,
        help="The context that names the server (`sagelet context`). Default: the current one.",
    )(command)


def data_option(command: F) -> F:
    """Adds --data, as `data: Path | None`."""
    return click.option(
        "--data",
        envvar="SAGELET_DATA",
        show_envvar=True,
        show_default="~/.local/share/sagelet",
        type=click.Path(file_okay=False, path_type=Path),
        callback=absolute,
        help="The data directory of the server.",
    )(command)


def endpoint_option(command: F) -> F:
    return click.option(
        "--endpoint",
        envvar="SAGELET_ENDPOINT",
        show_envvar=True,
        callback=checked(values.checked_endpoint),
        help=f"The server. Default: the one that runs on --data, else {DEFAULT_ENDPOINT}.",
    )(command)


def account_option(command: F) -> F:
    return click.option(
        "--account",
        callback=checked(values.checked_account),
        help=f"Default: the context's, or AWS_ACCESS_KEY_ID, where that is 12 digits, else {DEFAULT_ACCOUNT}.",
    )(command)


def region_option(command: F) -> F:
    return click.option(
        "--region", help="Default: the context's, or the one that is configured for AWS, or us-east-1."
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
    """--context, --endpoint, --data, --account and --region, as `server: Server`."""
    return _with_server(command, context_option, endpoint_option, account_option, region_option, data_option)


def endpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --context, --endpoint and --data, as `server: Server`: for what does not belong to one account."""
    return _with_server(command, context_option, endpoint_option, data_option)


def directory_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--context and --data, as `server: Server`: for work on the data directory itself (`directories.py`)."""
    return _with_server(command, context_option, data_option)


def account_directory_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As directory_options, with --account and --region."""
    return _with_server(command, context_option, account_option, region_option, data_option)


_NAMES: dict[Any, str] = {
    context_option: "context_name",
    endpoint_option: "endpoint",
    account_option: "account",
    region_option: "region",
    data_option: "data",
}


def _with_server(command: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[..., Any]:
    """Adds the options to `command`. The rule (`servers/rule.py`) makes a server of them. The command names the server
    if the user did not."""

    @functools.wraps(command)
    def with_server(*args: Any, **others: Any) -> Any:
        for option in options:
            del others[_NAMES[option]]
        context = click.get_current_context()
        server = server_in(context)
        context.meta[SERVER] = server
        if not is_expected(server) and not others.get("as_json"):
            context.meta[TOLD] = True
            say(f"Server: {server.words}", err=True)
        if server.doubt:
            say(f"Warning: {server.doubt}.", err=True)
        return command(*args, server=server, **others)

    made: Callable[..., Any] = with_server
    for option in reversed(options):
        made = option(made)
    return made


def server_in(context: click.Context) -> Server:
    """Returns the server that a command line means, even an incomplete one (completion). Raises SettingsError."""
    return choose(given_in(context))


def given_in(context: click.Context) -> Given:
    """Returns what the command line itself names. Values that click took from the environment are left to the rule,
    which reads the environment itself."""

    def typed(name: str) -> Any:
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        return context.params.get(name) if is_typed else None

    return Given(*(typed(name) for name in ("context_name", "endpoint", "data", "account", "region")))


def absolute(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    return None if value is None else value.expanduser().resolve()


def checked(check: Callable[[str], str]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Makes an option's callback. What `check` raises becomes click's error for wrong usage."""

    def checked_value(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        try:
            return None if value is None else check(value)
        except SettingsError as error:
            raise click.BadParameter(str(error)) from error

    return checked_value


def pairs(texts: Sequence[str], option: str, form: str = "NAME=VALUE") -> dict[str, str]:
    """Parses `K=V`, each key once. Raises UsageError for another form, which names `form`."""
    parsed: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{option} {text}: must be of the form {form}")
        if name in parsed:
            raise click.UsageError(f"{option} {text}: {name} is there twice")
        parsed[name] = value
    return parsed
