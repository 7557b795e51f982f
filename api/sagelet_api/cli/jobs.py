"""`sagelet jobs`: lists the training jobs of an account."""

from datetime import datetime

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ask
from sagelet_api.cli.listing import list_options, remark, show_list
from sagelet_api.cli.options import server_options
from sagelet_api.cli.training_jobs import TRAINING, Wanted, find
from sagelet_api.servers.server import Server

#: Other places that an empty list names.
_MOST_ELSEWHERE = 5


@click.command()
@list_options(TRAINING)
@click.option("--compiled/--native", default=None, help="Only jobs that ask for the Training Compiler, or that do not.")
@click.option("--no-children", is_flag=True, help="Leave out the trials of tuning jobs.")
@click.option("--parent", default="", metavar="NAME", help="Only the trials of this tuning job.")
@server_options
def jobs(
    statuses: tuple[str, ...],
    name_contains: str,
    since: datetime | None,
    limit: int,
    everything: bool,
    watch: bool,
    as_json: bool,
    compiled: bool | None,
    no_children: bool,
    parent: str,
    server: Server,
) -> None:
    """List training jobs, the newest first.

    If the output is not a terminal, each job is a line with tabs between name, status, time of creation, seconds of
    training, whether it asks for the compiler, and instances. `sagelet describe` says whether it was compiled.
    --json gives the answer of SageMaker's Search.
    """
    if no_children and parent:
        raise click.UsageError("Give either --no-children or --parent")
    aws, wanted = Aws(server), Wanted(statuses, name_contains, since, compiled, parent, not no_children)
    most = None if everything else limit
    found = show_list(TRAINING, lambda: find(aws, wanted, most), watch=watch, as_json=as_json)
    if found is None:
        return
    remark(TRAINING.words, found, most, server, is_filtered=wanted != Wanted())
    if not found and wanted == Wanted():
        click.echo(_elsewhere(server), err=True)


def _elsewhere(server: Server) -> str:
    """Says where the server has jobs. Somebody who sees an empty list mostly looks into another region."""
    here = (server.account, server.region)
    places = [one for one in ask(server, "GET", "places")["places"] if (one["account"], one["region"]) != here]
    if not places:
        return "no other account or region has any; `sagelet submit FILE` or `sagelet demo` trains one"
    named = [
        f"{one['training_jobs']} in {one['region']}"
        + ("" if one["account"] == server.account else f" of account {one['account']}")
        for one in places[:_MOST_ELSEWHERE]
    ]
    more = ", and more" if len(places) > _MOST_ELSEWHERE else ""
    return f"elsewhere it has {', '.join(named)}{more}: --region and --account name them"
