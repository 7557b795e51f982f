"""`sagelet run` and `sagelet env`: run unchanged client programs against the emulator."""

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

import click

from sagelet_api.cli.control_client import ask_health
from sagelet_api.cli.hub_endpoint import hub_endpoint
from sagelet_api.cli.options import F, json_option, server_options
from sagelet_api.cli.text import echo_json
from sagelet_api.redirect.environment import SECRET, changed, redirection
from sagelet_api.redirect.profiles import profiles_file
from sagelet_api.servers.server import Directory, Server
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.hub.access import HERE_ALONE

#: Exit codes of shells: the command cannot be run, the command was not found.
CANNOT_RUN, NOT_FOUND = 126, 127
#: Python ignores these signals, and the program would inherit that.
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


def hub_option(command: F) -> F:
    return click.option("--hub", is_flag=True, help="Send clients of the Hugging Face Hub to sagelet's hub, too.")(
        command
    )


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@hub_option
@server_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...], hub: bool, server: Server) -> None:
    """Run a program with its AWS calls sent to sagelet.

    The calls of its child processes are sent there, too. For programs of boto3, the SageMaker SDKs, the AWS CLI and
    Jupyter: `sagelet run -- jupyter lab`.
    """
    if ask_health(server).get("auth") and server.keys is None:
        raise SettingsError(
            f"{server.words} checks signatures: name its data directory, which has the key, with --data"
        )
    replace_process(command, changed(os.environ, _changes(server, hub)))


@click.command()
@click.option("--fish", is_flag=True, help="For the fish shell.")
@hub_option
@json_option
@server_options
def env(fish: bool, hub: bool, as_json: bool, server: Server) -> None:
    """Print what `sagelet run` sets, for a shell.

    For bash, zsh and other POSIX shells: `eval "$(sagelet env)"`; for fish: `sagelet env --fish | source`. In the
    output of --json, null stands for variables to unset.
    """
    changes = dict(sorted(_changes(server, hub).items()))
    if as_json:
        echo_json(changes)
        return
    for name, value in changes.items():
        click.echo(_fish(name, value) if fish else _posix(name, value))


def _changes(server: Server, hub: bool) -> dict[str, str | None]:
    keys, authority = server.keys, server.authority
    secret = SECRET if keys is None else keys.secret
    changes = redirection(
        server.endpoint,
        server.account,
        server.region,
        os.environ,
        secret=secret,
        authority=None if authority is None else str(authority),
        data=str(server.data) if server.directory is not Directory.TRIED else None,
        profiles=profiles_file(os.environ, server.endpoint, server.account, secret),
    )
    return {**changes, "HF_ENDPOINT": hub_endpoint(server), **HERE_ALONE} if hub else changes


def replace_process(command: tuple[str, ...], environ: Mapping[str, str]) -> NoReturn:
    """Replaces this process by the command (exec), so the command's exit code and signals reach the caller."""
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
