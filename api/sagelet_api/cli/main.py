"""The command `sagelet`."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

import sagelet_engine
from sagelet_api.cli.exit_codes import ERROR, INTERRUPTED, EndedWith
from sagelet_api.cli.suggestions import ELSEWHERE, Suggesting
from sagelet_api.cli.text import printable, until_reader_ends
from sagelet_engine.base.errors import SageletError

#: The sections of `sagelet --help`.
SECTIONS: Mapping[str, Sequence[str]] = {
    "The server": ("up", "down", "status", "doctor", "context", "docs"),
    "Programs that use it": ("demo", "run", "env"),
    "Training jobs": (
        "submit",
        "jobs",
        "describe",
        "logs",
        "wait",
        "artifacts",
        "open",
        "stop",
        "interrupt",
        "delete",
        "report",
        "compare",
        "tune",
    ),
    "Processing jobs and pipelines": ("processing", "pipelines"),
    "What it has": ("image", "install-torch", "bundle", "instances", "cache", "s3", "hub"),
    "What it keeps": ("gc", "check", "reset", "export", "import"),
    "Tests and shells": ("fault", "throttle", "completion"),
}

#: Modules of commands that are in another command's module.
_MODULES = {
    "down": "status",
    "env": "run",
    "stop": "job_actions",
    "interrupt": "job_actions",
    "delete": "job_actions",
    "reset": "state",
    "export": "state",
    "import": "state",
    "throttle": "fault",
    "install-torch": "install_torch",
}


class _Explained(click.ClickException):
    """One line of an error, and the exit code that goes with it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance, too


class Sectioned(Suggesting):
    """Commands in sections. Errors that sagelet raises on purpose are one line, with exit code 1.

    A command's module is loaded when the command is used, because loading all of them takes longer than most commands.
    """

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with until_reader_ends():  # The reader of `sagelet --help | head` has closed the pipe.
            return super().make_context(*arguments, **options)
        raise click.exceptions.Exit(0)

    def invoke(self, context: click.Context) -> object:
        try:
            with until_reader_ends():
                return super().invoke(context)
            return None
        except SageletError as error:
            code = error.exit_code if isinstance(error, EndedWith) else ERROR
            raise _Explained(printable(_with_server(error, context)), code) from error
        except KeyboardInterrupt:
            # Not an error: Ctrl-C ends commands without an end of their own, with the exit code of shells.
            click.echo(err=True)
            context.exit(INTERRUPTED)

    def elsewhere(self, _context: click.Context) -> Mapping[str, str]:
        return ELSEWHERE

    def list_commands(self, _context: click.Context) -> list[str]:
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(context):
            return None
        module = import_module(f"sagelet_api.cli.{_MODULES.get(name, name)}")
        # `import` and `open` are reserved words or built-ins of Python.
        attribute = f"{name}_" if name in ("import", "open") else name.replace("-", "_")
        found: click.Command = getattr(module, attribute)
        return found

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(context)))
        for title, names in SECTIONS.items():
            commands = [(name, self.get_command(context, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:{width}}", command.get_short_help_str(66)) for name, command in commands if command]
                )


def _with_server(error: SageletError, context: click.Context) -> str:
    """Returns the message. An error of a server's answer also names the server."""
    from sagelet_api.cli.control_client import ServerRefused
    from sagelet_api.cli.options import SERVER, TOLD

    server, message = context.meta.get(SERVER), str(error)
    if server is None or TOLD in context.meta or not isinstance(error, ServerRefused) or server.words in message:
        return message
    return f"{message}\nServer: {server.words}"


@click.group(cls=Sectioned, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sagelet_engine.__version__, prog_name="sagelet")
def main() -> None:
    """A local SageMaker that really runs compiled training jobs.

    The first five minutes: `sagelet doctor` checks this machine, `sagelet demo` trains a small model natively and
    compiled, `sagelet up` starts the server, and `sagelet run -- COMMAND` brings a program of boto3 or the SageMaker
    SDKs to it.
    """
