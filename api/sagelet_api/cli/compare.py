"""`sagelet compare`: jobs against each other, native against compiled."""

from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

import click

from sagelet_api.cli import repeating
from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.kinds import JobName
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.comparison import files, table
from sagelet_api.servers.server import Server
from sagelet_engine.comparison.payback import MOST_STEPS
from sagelet_engine.comparison.repeated import FEWEST_PAIRS, MOST_PAIRS
from sagelet_engine.comparison.result import Comparison


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="NATIVE COMPILED [...]", type=JobName(TRAINING))
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a report in one file.")
@click.option("--png", type=click.Path(file_okay=False, path_type=Path), help="Write the four pictures to a directory.")
@click.option(
    "--repeat",
    type=click.IntRange(FEWEST_PAIRS, MOST_PAIRS),
    metavar="N",
    help="Train copies of both jobs N times, in turn, and give a verdict with intervals.",
)
@click.option(
    "--steps",
    type=click.IntRange(1, MOST_STEPS),
    metavar="N",
    help="Also say the bill of a training of N steps.",
)
@click.option("--anyway", is_flag=True, help="Compare jobs that are not comparable, too, and say why they are not.")
@json_option
@server_options
def compare(
    jobs: tuple[str, ...],
    html: Path | None,
    png: Path | None,
    repeat: int | None,
    steps: int | None,
    as_json: bool,
    anyway: bool,
    server: Server,
) -> None:
    """Compare jobs, native against compiled.

    Compares each job with the first. It says first how fast it is, what compiling cost and after how many steps that
    has paid, whether the losses agree, and the bill: of this run, and of --steps N. Jobs are names, or
    ARNs for those of other accounts and regions. Jobs that are not comparable are refused, with the reasons: other data
    or instances, or one that has not completed.

    One run of each does not say how far runs vary. --repeat trains both again, alternating. For each figure it says
    better, worse, the same, or "too noisy to say". It also says whether the loss curves differ by no more than native
    runs do.
    """
    if repeat is not None:
        if html or png or anyway or steps:
            raise click.UsageError("--repeat takes two jobs, and neither --html, --png, --steps nor --anyway")
        _repeat(jobs, repeat, as_json=as_json, server=server)
        return
    query = urlencode([*(("job", name) for name in jobs), ("account", server.account), ("region", server.region)])
    try:
        length = "" if steps is None else f"&steps={steps}"
        answer = ask(server, "GET", f"compare?{query}{length}{'&anyway=1' if anyway else ''}")
    except ServerRefused as error:
        if isinstance(error.__cause__, HTTPError) and error.__cause__.code == HTTPStatus.CONFLICT:
            raise ServerRefused(f"{error} To compare all the same: --anyway") from error
        raise
    comparison = Comparison.from_json(answer)
    # Raised before anything is printed, because `| head` ends the command.
    written = [files.write_html(comparison, html)] if html else []
    written += files.write_pngs(comparison, png) if png else []
    if as_json:
        echo_json(answer)
    else:
        table.show(comparison, console())
    for path in written:
        click.echo(f"wrote {path}", err=as_json)


def _repeat(jobs: tuple[str, ...], pairs: int, *, as_json: bool, server: Server) -> None:
    if len(jobs) != 2:
        raise click.UsageError(f"--repeat takes two jobs, not {len(jobs)}")
    verdict, comparisons = repeating.repeat(Aws(server), server, (jobs[0], jobs[1]), pairs)
    if as_json:
        echo_json({"verdict": verdict.to_json(), "pairs": [one.to_json() for one in comparisons]})
    else:
        table.show_verdict(verdict, console())
