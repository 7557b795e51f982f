"""Finds tuning jobs for commands, through AWS's API."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.options import server_in
from sagelet_api.protocol.members import Output
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError

#: The most tuning jobs that completion offers.
PAGE = 100


class NoSuchTuningJob(SageletError):
    """The server has no tuning job of this name in the account and region."""


class TuningName(click.ParamType[str]):
    """Completed from the server's tuning jobs."""

    name = "tuning job"

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list["click.shell_completion.CompletionItem"]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in names_from(ctx, incomplete)]


def names_from(context: click.Context, beginning: str) -> list[str]:
    """Returns names of tuning jobs for completion, the newest first. Empty if the server does not answer."""
    parameters: Output = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": PAGE}
    if beginning:
        parameters["NameContains"] = beginning
    try:
        found = Aws(server_in(context)).call("sagemaker", "list_hyper_parameter_tuning_jobs", **parameters)
    except SageletError:  # A message would garble the line that the user is typing.
        return []
    names = [job["HyperParameterTuningJobName"] for job in found["HyperParameterTuningJobSummaries"]]
    return [name for name in names if name.startswith(beginning)]


def describe(aws: Aws, server: Server, name: str) -> Output:
    """Returns a tuning job. Raises NoSuchTuningJob, ServerRefused, NoServer."""
    with known(server, name):
        return aws.call("sagemaker", "describe_hyper_parameter_tuning_job", HyperParameterTuningJobName=name)


def trials_of(aws: Aws, server: Server, name: str) -> list[Output]:
    """Returns its HyperParameterTrainingJobSummaries, the oldest first. Raises as `describe`."""
    with known(server, name):
        pages = aws.pages(
            "sagemaker",
            "list_training_jobs_for_hyper_parameter_tuning_job",
            HyperParameterTuningJobName=name,
            SortBy="CreationTime",
            MaxResults=100,
        )
        return [trial for page in pages for trial in page["TrainingJobSummaries"]]


@contextmanager
def known(server: Server, name: str) -> Iterator[None]:
    """Replaces AWS's error for a missing tuning job, which does not name account and region."""
    try:
        yield
    except ServerRefused as refused:
        if "find a tuning job" not in str(refused):
            raise
        raise NoSuchTuningJob(
            f"Account {server.account} has no tuning job {name} in {server.region} on {server.words}: "
            "`sagelet tune list` lists them; --account and --region name others"
        ) from refused
