"""`sagelet open`: the web page, in the browser."""

import os
import sys
import webbrowser
from urllib.parse import quote, urlencode

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ask_health
from sagelet_api.cli.kind_rows import KINDS
from sagelet_api.cli.kinds import JobName, Kind, NoSuchJob
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.servers.server import Server
from sagelet_api.web import PREFIX

#: With any of these there is a screen, or the user has named a program.
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


@click.command("open")
@click.argument("job", required=False, type=JobName(*KINDS))
@json_option
@server_options
def open_(job: str | None, as_json: bool, server: Server) -> None:
    """Open the web page of a training, tuning or processing job.

    Without JOB, opens the list of training jobs. It also prints the address. Without a browser, and in a pipe, it only
    prints the address.
    """
    health = ask_health(server)
    url = page_of(server, job, TRAINING if job is None else _kind(server, job))
    if as_json:
        echo_json({"url": url})
        return
    click.echo(url)
    if health.get("auth"):
        click.echo("The page asks for a login: `sagelet up` printed a link, or enter the key pair", err=True)
    if _is_terminal() and not _show(url):
        click.echo("This machine has no browser: open the address in yours", err=True)


def _kind(server: Server, name: str) -> Kind:
    """Returns the kind that has a job of this name. Raises NoSuchJob."""
    aws = Aws(server)
    for kind in KINDS:
        if kind.exists(aws, name):
            return kind
    words = [kind.words.removesuffix(" job") for kind in KINDS]
    commands = ", ".join(f"`{kind.lists}`" for kind in KINDS)
    raise NoSuchJob(
        f"Account {server.account} has no {', '.join(words[:-1])} or {words[-1]} job {name} in {server.region} on "
        f"{server.words}: {commands} list them; --account and --region name others"
    )


def page_of(server: Server, job: str | None, kind: Kind) -> str:
    query = urlencode({"account": server.account, "region": server.region})
    path = f"{PREFIX}/" if job is None else f"{PREFIX}/{kind.path}/{quote(job, safe='')}"
    return f"{server.endpoint}{path}?{query}"


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _show(url: str) -> bool:
    """Returns whether a browser opened it. A text browser would take the terminal, so it is not used."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _SCREENS):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
