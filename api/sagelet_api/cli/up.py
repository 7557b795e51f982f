"""`sagelet up`: the server, in the foreground or detached from the terminal."""

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import sagelet_engine
from sagelet_api.cli.address import check_address
from sagelet_api.cli.detached import DETACHED, READY, start_detached
from sagelet_api.cli.exit_codes import ERROR
from sagelet_api.cli.options import context_option, given_in, json_option
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.up_options import settings_of, settings_options
from sagelet_api.ending import EndRequests
from sagelet_api.servers.rule import directory_to_serve
from sagelet_api.web import LOGIN
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.failpoints import VARIABLE, arm
from sagelet_engine.base.interpreter import set_for_server
from sagelet_engine.base.keys import FILE as KEY_FILE
from sagelet_engine.base.keys import ca_file
from sagelet_engine.settings import Settings
from sagelet_engine.state.notice import Notice, post_notice, withdraw_notice

if TYPE_CHECKING:
    from sagelet_api.serve import Sagelet

#: Seconds between checks that the data directory is still this server's.
WATCH_SECONDS = 0.5


@click.command()
@click.option("-d", "--detach", is_flag=True, help="Return when the server is ready; `sagelet down` ends it.")
@settings_options
@click.option(
    "--log-level",
    default="warning",
    envvar="SAGELET_LOG_LEVEL",
    show_envvar=True,
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="To stderr. `info` has a line for each request.",
)
@json_option
@context_option
def up(detach: bool, log_level: str, as_json: bool, context_name: str | None, **options: Any) -> None:  # noqa: ARG001
    """Start the server.

    Ctrl-C or SIGTERM ends it. Running jobs go on, and the next start adopts them. --detach leaves it running when the
    terminal is closed, with its output in DATA/server.log. --json, with --detach, prints endpoint and process.
    """
    if as_json and not detach:
        raise click.UsageError("--json goes with --detach")
    options["data"] = directory_to_serve(given_in(click.get_current_context()))
    settings = settings_of(**options)
    # A start that cannot succeed leaves no new directory behind. Path.exists raises where nobody may look.
    if not os.path.exists(settings.data):
        check_address(settings.host, settings.port)
    if not detach:
        logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        _serve(settings)
        return
    words = _pinned([word for word in sys.argv[1:] if word not in ("-d", "--detach", "--json")], settings.data)
    started = start_detached(settings.data, words)
    if as_json:
        echo_json({"endpoint": started.notice.endpoint, "pid": started.notice.pid, "data": str(settings.data)})
        return
    click.echo(started.output, nl=False)
    click.echo(f"It runs as process {started.notice.pid}, with its output in {started.log}. `sagelet down` ends it.")


def _serve(settings: Settings) -> None:
    set_for_server()
    from sagelet_api.serve import Sagelet

    end = EndRequests()
    arm(os.environ.get(VARIABLE, ""))
    server = Sagelet(settings, on_reset=end.ask)
    adopted = server.start()
    now_ms, detached = SystemClock().now_ms(), DETACHED in os.environ
    try:
        # Written before the line that says "ready": its reader may call `sagelet down`, which reads the notice.
        instance = server.engine.instance
        post_notice(settings.data, Notice(os.getpid(), server.server.endpoint, now_ms, detached, instance))
        _announce(server, settings, adopted)
        reset = _end_of(server, end)
        withdraw_notice(settings.data)
    except BaseException:
        # The threads of a started server would keep a process alive that has printed "Error".
        _check_still_owned(server)
        server.stop()
        raise
    port = server.server.port
    running = [job.key.name for job in server.stop()]
    if not reset:
        _farewell(running)
        return
    _reset(settings, reset)
    _start_again(settings.data, port)


def _end_of(server: "Sagelet", end: EndRequests) -> str:
    """Waits until the server must end. Returns the scope of the reset that it ends for, or an empty string."""
    while (reset := end.wait(WATCH_SECONDS)) is None:
        _check_still_owned(server)
    return reset


def _check_still_owned(server: "Sagelet") -> None:
    if (lost := server.lost()) is not None:
        _give_up(lost)


def _give_up(lost: str) -> NoReturn:
    """Ends at once, as `kill -9` does. An ordinary end would write into the directory that is there now."""
    text = f"Error: {lost}: this server ends. Running jobs go on, and the next server there adopts them"
    # Its terminal may be gone. Then it ends, too.
    with suppress(OSError):
        click.echo(text, err=True)
        sys.stdout.flush()
    os._exit(ERROR)


def _announce(server: "Sagelet", settings: Settings, adopted: int) -> None:
    choice = server.choice
    click.echo(
        f"sagelet {sagelet_engine.__version__} {READY} {server.server.endpoint} "
        f"(runtime {choice.runtime.name}: {choice.reason}; data {settings.data})"
    )
    for line in _how_to_come_in(server, settings):
        click.echo(line)
    if adopted:
        click.echo(f"{adopted} unfinished job{'s are' if adopted > 1 else ' is'} taken up again")


def _reset(settings: Settings, scope: str) -> None:
    from sagelet_engine.machine.runtimes import every_runtime
    from sagelet_engine.state.resetting import reset_data

    click.echo(f"sagelet reset: {scope} in {settings.data}")
    for kept in reset_data(settings.data, scope, every_runtime(settings, SystemClock())):
        click.echo(f"Files that are not sagelet's were among the objects; they are in {kept}")


def _start_again(data: Path, port: int) -> NoReturn:
    """Starts the same program in the same process, so that nothing stays in memory, such as moto's state."""
    sys.stdout.flush()
    # If an option is given twice the last one counts. --port 0 would take another port.
    os.execv(sys.executable, [*_pinned(sys.orig_argv, data), "--port", str(port)])


def _pinned(words: Sequence[str], data: Path) -> list[str]:
    """A command line that means this data directory, also when contexts have changed since."""
    kept: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        if "--context" not in (before, word) and not word.startswith("--context="):
            kept.append(word)
    return [*kept, "--data", str(data)]


def _how_to_come_in(server: "Sagelet", settings: Settings) -> list[str]:
    lines = []
    if settings.auth:
        lines.append(
            f"signatures are checked: `sagelet run`, or AWS_SHARED_CREDENTIALS_FILE={settings.data / KEY_FILE}"
        )
        lines.append(
            f"the web page, for an hour and once: {_for_browsers(server.server.endpoint)}{LOGIN}"
            f"?token={server.sessions.link()}"
        )
    if settings.tls:
        lines.append(f"the certificate is of sagelet's own: `sagelet run`, or AWS_CA_BUNDLE={ca_file(settings.data)}")
    return lines


def _for_browsers(endpoint: str) -> str:
    """Returns an address that this machine's browsers open, in place of the one that means all addresses."""
    return endpoint.replace("://0.0.0.0:", "://localhost:").replace("://[::]:", "://localhost:")


def _farewell(running: list[str]) -> None:
    if not running:
        click.echo("sagelet stopped; no job was running")
        return
    click.echo(f"sagelet stopped; {len(running)} running on, adopted at the next start: {', '.join(sorted(running))}")
