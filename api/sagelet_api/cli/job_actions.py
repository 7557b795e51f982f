"""`sagelet stop`, `sagelet interrupt` and `sagelet delete`."""

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import ENDED, Job, JobName, describe, known
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError


class NotEnded(SageletError):
    """A running job cannot be deleted."""


@click.command()
@click.argument("names", metavar="JOB...", nargs=-1, required=True, type=JobName())
@json_option
@server_options
def stop(names: tuple[str, ...], as_json: bool, server: Server) -> None:
    """Stop running jobs.

    Does what StopTrainingJob does: SIGTERM, 120 s of grace (`sagelet up --stop-grace`), SIGKILL, then an upload of the
    results so far. Returns at once; `sagelet wait JOB` waits for the end. A job that has ended already is left as it
    is.
    """
    aws, states = Aws(server), []
    for name in names:
        job = _stopped(aws, server, name)
        states.append({"TrainingJobName": name, "TrainingJobStatus": job["TrainingJobStatus"]})
        if not as_json:
            click.echo(f"{name}: {job['TrainingJobStatus']}")
    if as_json:
        echo_json(states)


def _stopped(aws: Aws, server: Server, name: str) -> Job:
    job = describe(aws, server, name)
    if job["TrainingJobStatus"] in ENDED:
        return job
    try:
        aws.call("sagemaker", "stop_training_job", TrainingJobName=name)
    except ServerRefused:
        # It may have ended in between.
        if (job := describe(aws, server, name))["TrainingJobStatus"] not in ENDED:
            raise
        return job
    return describe(aws, server, name)


@click.command()
@click.argument("name", metavar="JOB", type=JobName())
@json_option
@server_options
def interrupt(name: str, as_json: bool, server: Server) -> None:
    """Take a managed spot job's instances away.

    The job gets SIGTERM, the grace period and a last sync of checkpoints. Then it starts again.
    """
    with known(server, name):
        answer = ask(server, "POST", server.job_path(name, "interrupt"))
    if as_json:
        echo_json(answer)
        return
    click.echo(f"{name}: {answer['SecondaryStatus']} in its attempt {answer['Attempt']}")


@click.command()
@click.argument("names", metavar="JOB...", nargs=-1, required=True, type=JobName())
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@server_options
def delete(names: tuple[str, ...], yes: bool, as_json: bool, server: Server) -> None:
    """Delete jobs that have ended.

    Their logs, metrics and files go with them; what they put into S3 stays.
    """
    aws = Aws(server)
    for name in names:
        status = describe(aws, server, name)["TrainingJobStatus"]
        if status not in ENDED:
            raise NotEnded(f"{name} is {status}: stop it first (`sagelet stop {name}`); nothing was deleted")
    if not yes:
        what = names[0] if len(names) == 1 else f"{len(names)} jobs"
        click.confirm(f"Delete {what}, with logs and metrics?", abort=True, err=True)
    for name in names:
        aws.call("sagemaker", "delete_training_job", TrainingJobName=name)
        if not as_json:
            click.echo(f"{name}: deleted")
    if as_json:
        echo_json([{"TrainingJobName": name, "Deleted": True} for name in names])
