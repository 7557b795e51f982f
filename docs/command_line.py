"""Makes docs/reference/command-line.md from the commands themselves. `make docs` runs it."""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path

import click

from sagelet_api.cli.completion import SETUP
from sagelet_api.cli.exit_codes import MEANINGS
from sagelet_api.cli.main import SECTIONS, main

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"
_INTRODUCTION = """\
# The command line

Made by `make docs` from the commands in `api/sagelet_api/cli`; do not edit. `sagelet COMMAND --help` says the same.

The first of these that names a server decides which server a command means ([several
servers](../how-to/contexts.md)):
`--context`, or `--endpoint` and `--data`; SAGELET_CONTEXT, or SAGELET_ENDPOINT and SAGELET_DATA, else AWS_ENDPOINT_URL;
the current context; the default, which is the server on the default data directory, else http://127.0.0.1:4599. A
command prints on stderr which server it uses. It does not do so for the default server, for one that the command line
names, or with `--json`. It uses the account and region of the context, or those that boto3 finds in the environment.
It needs no AWS credentials.

On a terminal, output has tables and colours (not with `NO_COLOR`), and a status line while something takes long. In a
pipe each row is a line with tabs between its cells, without padding and without colour, also with `FORCE_COLOR`.
There a list has no heading, but the tables of a report have theirs. With `--json` the output is one JSON document
(`logs`: one object a
line). Results go to stdout, remarks and errors to stderr. Times in JSON and in pipes are UTC.

If nobody reads a command's output any more (`sagelet jobs | head -1`), the command ends without an error, with 0.
`wait` goes on waiting, and ends with the code of its jobs.
"""


def page() -> str:
    return "\n".join([_INTRODUCTION, *_exit_codes(), *_completion(), *_sections()])


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield "| code | |\n| --- | --- |"
    yield from (f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    yield "\n`sagelet run` ends with its program's exit code; 126 if that cannot be run, 127 if it is missing.\n"


def _completion() -> Iterator[str]:
    yield "## Completion\n"
    yield "Completes commands, options, their values, and names of jobs, which come from the server:\n"
    yield "```sh"
    yield from SETUP.values()
    yield "```\n"


def _sections() -> Iterator[str]:
    context = click.Context(main, info_name="sagelet")
    for title, names in SECTIONS.items():
        yield f"## {title}\n"
        yield from _inner(main, names, context)


def _command(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    yield f"### {context.command_path}\n"
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
    yield f"{_prose(cleandoc(command.help or ''))}\n"
    rows = [_row(parameter, context) for parameter in command.params if isinstance(parameter, click.Option)]
    if rows:
        yield "| option | default | |\n| --- | --- | --- |"
        yield from rows
        yield ""
    if isinstance(command, click.Group):
        yield from _inner(command, command.list_commands(context), context)


def _inner(group: click.Group, names: Iterable[str], context: click.Context) -> Iterator[str]:
    for name in names:
        command = group.get_command(context, name)
        assert command is not None
        yield from _command(command, context)


def _prose(text: str) -> str:
    """Blocks that click leaves as they are become code."""
    parts = []
    for block in text.split("\n\n"):
        kept = block.strip().startswith("\b")
        parts.append(f"```text\n{block.strip().removeprefix(chr(8)).strip(chr(10))}\n```" if kept else block)
    return "\n\n".join(parts)


def _row(option: click.Option, context: click.Context) -> str:
    extra = option.get_help_extra(context)
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    variables = "".join(f"; `{name}`" for name in extra.get("envvars", ()))
    default = "" if option.is_flag else extra.get("default", "").strip("()")
    return f"| {names}{_escaped(metavar)}{variables} | {_escaped(default)} | {_escaped(option.help or '')} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
