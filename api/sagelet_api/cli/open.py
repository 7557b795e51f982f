"""`sagelet open`: the web page, in the browser."""

import os
import sys
import webbrowser
from urllib.parse import quote, urlencode

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ask_health
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import JobName, NoSuchJob, describe, is_processing
from sagelet_api.cli.tuning_jobs import NoSuchTuningJob, names_from
from sagelet_api.cli.tuning_jobs import describe as describe_tuning
from sagelet_api.servers.server import Server
from sagelet_api.web import PREFIX

#: With any of these there is a screen, or the user has named a program.
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


class _Opened(JobName):
    """A training job or a tuning job; completed from both."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list["click.shell_completion.CompletionItem"]:
        from click.shell_completion import CompletionItem

        tunings = [CompletionItem(name) for name in names_from(ctx, incomplete)]
        return super().shell_complete(ctx, param, incomplete) + tunings


@click.command("open")
@click.argument("job", required=False, type=_Opened())
@json_option
@server_options
def open_(job: str | None, as_json: bool, server: Server) -> None:
    """Open the web page of a training, tuning or processing job.

    Without JOB, opens the list of training jobs. It also prints the address. Without a browser, and in a pipe, it only
    prints the address.
    """
    health = ask_health(server)
    url = page_of(server, job, "jobs" if job is None else _kind(server, job))
    if as_json:
        echo_json({"url": url})
        return
    click.echo(url)
    if health.get("auth"):
        click.echo("The page asks for a login: `sagelet up` printed a link, or enter the key pair", err=True)
    if _is_terminal() and not _show(url):
        click.echo("This machine has no browser: open the address in yours", err=True)


def _kind(server: Server, name: str) -> str:
    """Returns the part of the address for a training job, or else for a tuning or processing job of this name.

    Raises NoSuchJob.
    """
    aws = Aws(server)
    try:
        describe(aws, server, name)
    except NoSuchJob as missing:
        try:
            describe_tuning(aws, server, name)
        except NoSuchTuningJob:
            if is_processing(aws, name):
                return "processing"
            raise missing from None
        return "tuning"
    return "jobs"


def page_of(server: Server, job: str | None, kind: str = "jobs") -> str:
    query = urlencode({"account": server.account, "region": server.region})
    path = f"{PREFIX}/" if job is None else f"{PREFIX}/{kind}/{quote(job, safe='')}"
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
