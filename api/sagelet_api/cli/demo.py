"""`sagelet demo`: trains a model compiled and natively, with only what is installed, and says what that brought."""

import os
import shlex
import socket
from dataclasses import asdict
from pathlib import Path

import click

from sagelet_api.cli import repeating
from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ask_health
from sagelet_api.cli.demo_jobs import ENVIRONMENTS, compile_bytecode, submitted
from sagelet_api.cli.demo_run import EXPECT, Shown, run, show
from sagelet_api.cli.detached import start_detached, stop_server
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json
from sagelet_api.comparison import table
from sagelet_api.servers.server import Origin, Server
from sagelet_engine.comparison.repeated import FEWEST_PAIRS, MOST_PAIRS
from sagelet_engine.settings import DEFAULT_PORT
from sagelet_engine.state.notice import read_notice

#: Fewer steps have too few spans for an interval.
FEWEST_STEPS, STEPS = 20, 80
PAGE = "demo.html"


@click.command()
@click.option(
    "--compiler", type=click.Choice(list(ENVIRONMENTS)), default="xla", show_default=True, help="What compiles."
)
@click.option(
    "--steps",
    type=click.IntRange(min=FEWEST_STEPS),
    default=STEPS,
    show_default=True,
    help="Training steps of each job.",
)
@click.option(
    "--repeat",
    type=click.IntRange(FEWEST_PAIRS, MOST_PAIRS),
    metavar="N",
    help="Then train native and compiled N times more, in turn, for a verdict on whole jobs.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The file of the picture. Default: {PAGE} in the data directory.",
)
@click.option("--down", "end", is_flag=True, help="End the server afterwards if the demo has started it.")
@json_option
@server_options
def demo(
    compiler: str, steps: int, repeat: int | None, html: Path | None, end: bool, as_json: bool, server: Server
) -> None:
    """Train a GPT-2 compiled and natively; say what that brought.

    Ends with four lines: whether the losses agree, the steady speed against native, what compiling cost and when that
    is paid back, and what the same job compiles once more. It needs no checkout and no SDK, and trains on the sources
    of Python's standard library, on the server that runs, or on one that it starts and leaves running. Exits with 3
    when a job fails.
    """
    server, own = _running(server, quiet=as_json)
    try:
        click.echo(EXPECT[compiler], err=as_json)
        if own:
            compile_bytecode()
        aws = Aws(server)
        shown = run(server, submitted(aws, server, compiler, steps), to_stderr=as_json)
        if as_json and repeat is None:
            echo_json({"jobs": shown.names, "lines": shown.sentences, **asdict(shown.figures)})
        if repeat is not None:
            _repeat(aws, server, shown, repeat, as_json=as_json)
        if not as_json:
            show(shown, html or server.data / PAGE, _what_next(server, shown, runs_on=own and not end))
    except KeyboardInterrupt:
        if own:
            down = f"sagelet down --data {shlex.quote(str(server.data))}"
            click.echo(f"\nThe server that this has started runs on: `{down}` ends it", err=True)
        raise
    if own and end:
        stop_server(server.data)


def _running(server: Server, *, quiet: bool) -> tuple[Server, bool]:
    """Returns the server that is named or runs, otherwise one that it starts on the data directory; and True if it
    started one."""
    if server.address is not None and (server.origin is not Origin.NOTHING or read_notice(server.data) is not None):
        ask_health(server)
        return server, False
    port = [] if "SAGELET_PORT" in os.environ else ["--port", str(_port())]
    started = start_detached(server.data, ["up", "--data", str(server.data), *port])
    click.echo(started.output.rstrip(), err=quiet)
    return server.at(started.notice.endpoint), True


def _port() -> int:
    """Returns the port that every document names, if it is free."""
    try:
        with socket.create_server(("127.0.0.1", DEFAULT_PORT)):
            return DEFAULT_PORT
    except OSError:
        return 0


def _repeat(aws: Aws, server: Server, shown: Shown, pairs: int, *, as_json: bool) -> None:
    verdict, comparisons = repeating.repeat(aws, server, (shown.native.name, shown.compiled.name), pairs)
    if as_json:
        echo_json({"verdict": verdict.to_json(), "pairs": [one.to_json() for one in comparisons]})
        return
    click.echo()
    table.show_verdict(verdict, console())


def _what_next(server: Server, shown: Shown, *, runs_on: bool) -> list[str]:
    native, compiled, _ = shown.names
    where = f" --data {shlex.quote(str(server.data))}" if server.origin is not Origin.NOTHING else ""
    commands = [
        f"sagelet report {compiled}{where}      # what compiling did, step by step",
        f"sagelet doctor {compiled}{where}      # what costs time in the script",
        f"sagelet compare {native} {compiled}{where} --html report.html",
        "sagelet run -- python YOUR_PROGRAM.py      # boto3, the SageMaker SDKs",
    ]
    if runs_on:
        commands.append(f"sagelet down{where}      # the server that this has started runs on until then")
    # Only the owner's browser gets at the pages, while the server runs.
    return [f"{server.endpoint}/      # in a browser, while the server runs", *commands]
