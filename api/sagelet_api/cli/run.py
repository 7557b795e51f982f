"""`sagelet run` and `sagelet env`: unchanged client programs against the emulator."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

import click

from sagelet_api.cli.control_client import ask, authority_of, control_url, default_account
from sagelet_api.cli.server_options import checked_account, data_directory, data_option, endpoint_option
from sagelet_api.credentials import DEFAULT_REGION
from sagelet_api.redirect.environment import SECRET, changed, redirection
from sagelet_engine.keys import read_key_pair

F = TypeVar("F", bound=Callable[..., Any])

#: As shells say it: the command cannot be run, the command is not there.
CANNOT_RUN, NOT_FOUND = 126, 127
#: Python ignores these, and a program would inherit that.
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


def configured_region() -> str:
    """The region that boto3 would take, from the environment or the profile in use; else sagelet's default."""
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        if os.environ.get(name):
            return os.environ[name]
    try:
        return Session().get_config_variable("region") or DEFAULT_REGION
    except BotoCoreError:  # The profile is not there, or the file is garbled: no reason not to run.
        return DEFAULT_REGION


def where(command: F) -> F:
    """The options that say which server, account and region."""
    options = (
        endpoint_option,
        data_option,
        click.option(
            "--account",
            default=default_account,
            callback=checked_account,
            help="Default: AWS_ACCESS_KEY_ID, where that is 12 digits.",
        ),
        click.option("--region", default=configured_region, help="Default: the one that is configured, or us-east-1."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@where
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(endpoint: str, account: str, region: str, command: tuple[str, ...]) -> None:
    """Run COMMAND so that its calls to AWS reach the emulator, in its child processes too.

    For programs of boto3, the SageMaker SDKs, the AWS CLI and Jupyter: `sagelet run -- jupyter lab`.
    """
    health = ask("GET", control_url(endpoint, "health"))
    if "version" not in health:
        raise click.ClickException(f"{endpoint} is no sagelet server. Start one (`sagelet up`), or name it: --endpoint")
    if health.get("auth") and read_key_pair(data_directory()) is None:
        raise click.ClickException(
            f"{endpoint} checks signatures: name its data directory, which has the key, with --data"
        )
    replace_process(command, changed(os.environ, _changes(endpoint, account, region)))


@click.command()
@where
@click.option("--json", "as_json", is_flag=True, help="One JSON object; null: to be unset.")
@click.option("--fish", is_flag=True, help="For the fish shell.")
def env(endpoint: str, account: str, region: str, as_json: bool, fish: bool) -> None:
    """Print what `sagelet run` sets, for bash, zsh and other POSIX shells: `eval "$(sagelet env)"`."""
    changes = dict(sorted(_changes(endpoint, account, region).items()))
    if as_json:
        click.echo(json.dumps(changes, indent=2))
        return
    for name, value in changes.items():
        click.echo(_fish(name, value) if fish else _posix(name, value))


def _changes(endpoint: str, account: str, region: str) -> dict[str, str | None]:
    keys, authority = read_key_pair(data_directory()), authority_of(endpoint, data_directory())
    secret = SECRET if keys is None else keys.secret
    return redirection(
        endpoint, account, region, os.environ, secret=secret, authority=None if authority is None else str(authority)
    )


def replace_process(command: tuple[str, ...], environ: Mapping[str, str]) -> NoReturn:
    """Becomes the command: its exit code and its signals are its own."""
    for name in _IGNORED_BY_PYTHON:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    sys.stdout.flush()
    try:
        os.execvpe(command[0], command, environ)
    except FileNotFoundError:
        code, why = NOT_FOUND, "command not found"
    except OSError as error:
        code, why = CANNOT_RUN, str(error.strerror)
    click.echo(f"sagelet run: {command[0]}: {why}", err=True)
    sys.exit(code)


def _posix(name: str, value: str | None) -> str:
    return f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"


def _fish(name: str, value: str | None) -> str:
    if value is None:
        return f"set -e {name}"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {name} '{escaped}'"
