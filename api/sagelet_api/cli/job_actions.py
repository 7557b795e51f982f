"""`sagelet stop`, `sagelet interrupt` and `sagelet delete`. Jobs of other kinds are stopped and deleted likewise."""

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.kind_rows import described, named, naming_its_kind
from sagelet_api.cli.kinds import Job, Kind
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError


class NotEnded(SageletError):
    """A running job cannot be deleted."""


def stop_command(kind: Kind, how: str = "") -> click.Command:
    """Returns the command that stops jobs of a kind. `how`: what else its help says."""

    @click.command("stop", help=f"Stop running {kind.words}s.\n\n{how}A job that has ended already is left as it is.")
    @named(kind, several=True)
    @json_option
    @server_options
    def stop(names: tuple[str, ...], as_json: bool, server: Server) -> None:
        aws, states = Aws(server), []
        for name in names:
            status = kind.status(stopped(kind, aws, server, name))
            states.append({f"{kind.noun}Name": name, f"{kind.noun}Status": status})
            if not as_json:
                click.echo(f"{name}: {status}")
        if as_json:
            echo_json(states)

    return stop


def stopped(kind: Kind, aws: Aws, server: Server, name: str) -> Job:
    """Stops a job that has not ended, and returns it. Raises NoSuchJob, ServerRefused, NoServer."""
    job = described(kind, aws, server, name)
    if kind.has_ended(job):
        return job
    try:
        kind.call(aws, "stop", name)
    except ServerRefused:
        # It may have ended in between.
        if not kind.has_ended(job := kind.describe(aws, server, name)):
            raise
        return job
    return kind.describe(aws, server, name)


def delete_command(kind: Kind, what_stays: str) -> click.Command:
    """Returns the command that deletes jobs of a kind. `what_stays`: a sentence for its help."""

    @click.command("delete", help=f"Delete {kind.words}s that have ended.\n\n{what_stays}")
    @named(kind, several=True)
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @json_option
    @server_options
    def delete(names: tuple[str, ...], yes: bool, as_json: bool, server: Server) -> None:
        aws = Aws(server)
        for name in names:
            job = described(kind, aws, server, name)
            if not kind.has_ended(job):
                raise NotEnded(
                    f"{name} is {kind.status(job)}: stop it first (`{kind.command} stop {name}`); nothing was deleted"
                )
        if not yes:
            what = names[0] if len(names) == 1 else f"{len(names)} jobs"
            click.confirm(f"Delete {what}{', with logs and metrics' if kind.hosts else ''}?", abort=True, err=True)
        for name in names:
            with kind.known(server, name):
                kind.call(aws, "delete", name)
            if not as_json:
                click.echo(f"{name}: deleted")
        if as_json:
            echo_json([{f"{kind.noun}Name": name, "Deleted": True} for name in names])

    return delete


@click.command()
@named(TRAINING)
@json_option
@server_options
def interrupt(name: str, as_json: bool, server: Server) -> None:
    """Take a managed spot job's instances away.

    The job gets SIGTERM, the grace period and a last sync of checkpoints. Then it starts again.
    """
    with naming_its_kind(TRAINING, server, name):
        answer = TRAINING.ask(server, name, "interrupt", "POST")
    if as_json:
        echo_json(answer)
        return
    click.echo(f"{name}: {answer['SecondaryStatus']} in its attempt {answer['Attempt']}")


stop = stop_command(
    TRAINING,
    "Does what StopTrainingJob does: SIGTERM, 120 s of grace (`sagelet up --stop-grace`), SIGKILL, then an upload of "
    "the results so far. Returns at once; `sagelet wait JOB` waits for the end. ",
)
delete = delete_command(TRAINING, "Their logs, metrics and files go with them; what they put into S3 stays.")
