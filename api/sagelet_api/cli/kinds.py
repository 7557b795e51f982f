"""What commands know of a kind of job: a row. AWS's names of operations and members follow from its noun.

The rows stand beside what is the kind's own: training_jobs.py, processing_jobs.py, tuning_jobs.py, executions.py.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import click

from sagelet_api.cli.aws_client import INVALID, Aws
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.cli.options import server_in
from sagelet_api.cli.output import Column
from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject

#: An answer of a Describe operation, or a summary of a List operation.
Job = Output
ENDED = frozenset({"Completed", "Failed", "Stopped"})
STATUSES = ("InProgress", "Completed", "Failed", "Stopping", "Stopped")
#: The most summaries that a List operation returns at once.
PAGE = 100


class NoSuchJob(SageletError):
    """The account has nothing of this kind and name in the region."""


@dataclass(frozen=True)
class Wanted:
    """Conditions on jobs. An empty one does not limit."""

    statuses: Sequence[str] = ()
    name_contains: str = ""
    since: datetime | None = None


@contextmanager
def known(server: Server, what: str, lists: str) -> Iterator[None]:
    """Replaces AWS's error for what is missing by NoSuchJob: AWS's does not name account and region, which are mostly
    the mistake. `lists`: the command that lists what there is.
    """
    try:
        yield
    except ServerRefused as refused:
        if not refused.missing:
            raise
        raise NoSuchJob(
            f"Account {server.account} has no {what} in {server.region} on {server.words}: `{lists}` lists them; "
            "--account and --region name others"
        ) from refused


@dataclass(frozen=True)
class Kind:
    """A kind of job, as the commands about it need it."""

    #: As in AWS's names: Describe{noun}, {noun}Name, {noun}Status.
    noun: str
    #: As in AWS's operations of botocore: describe_{operations}.
    operations: str
    #: As people say it.
    words: str
    #: How its commands begin.
    command: str
    #: The command that lists its jobs.
    lists: str
    #: The part of addresses, of pages and of control endpoints.
    path: str
    columns: Sequence[Column[Job]]
    #: Returns what a line about a job's end says between its status and its failure reason.
    outcome: Callable[[Aws, Job], Sequence[str]]
    #: Returns a line about what a running job does now.
    doing: Callable[[Server, Job], str]
    #: Returns the count of hosts. None if jobs of this kind have no hosts, so no log.
    hosts: Callable[[Job], int] | None = None
    log_group: str = ""
    #: The member that is more precise than {noun}Status.
    precise: str = ""
    #: Its commands, as an error lists them for a user who has tried those of another kind.
    offers: str = ""
    #: What stands for a name in the usage of its commands.
    metavar: str = "JOB"
    #: The member that tells one from another: {noun}Name, or {noun}Arn.
    key: str = "Name"
    #: Returns what people read in place of its value.
    label: Callable[[str], str] = str
    statuses: Sequence[str] = STATUSES
    ended: frozenset[str] = ENDED

    def name(self, job: Job) -> str:
        return str(job[self.noun + self.key])

    def name_of(self, job: Job) -> str:
        """Returns what people read in place of `name`."""
        return self.label(self.name(job))

    def status(self, job: Job) -> str:
        return str(job[f"{self.noun}Status"])

    def state(self, job: Job) -> str:
        """Returns the most precise status."""
        return str(job[self.precise]) if self.precise else self.status(job)

    def has_ended(self, job: Job) -> bool:
        return self.status(job) in self.ended

    def call(self, aws: Aws, verb: str, name: str) -> Output:
        """Calls {verb}{noun} for a job: `describe`, `stop`, `delete`. Raises ServerRefused, NoServer."""
        return aws.call("sagemaker", f"{verb}_{self.operations}", **{self.noun + self.key: name})

    def describe(self, aws: Aws, server: Server, name: str) -> Job:
        """Returns a job. Raises NoSuchJob, ServerRefused, NoServer."""
        with self.known(server, name):
            return self.call(aws, "describe", name)

    def ask(
        self, server: Server, name: str, what: str, method: str = "GET", body: JsonObject | None = None
    ) -> JsonObject:
        """Returns the answer of a job's control endpoint. Raises NoSuchJob, ServerRefused, NoServer."""
        with self.known(server, name):
            return ask(server, method, server.job_path(self.path, name, what), body)

    def exists(self, aws: Aws, name: str) -> bool:
        """Returns False, too, for a name that no job of this kind can have: the longest names differ."""
        try:
            self.call(aws, "describe", name)
        except ServerRefused as refused:
            if refused.missing or refused.code == INVALID:
                return False
            raise
        return True

    def known(self, server: Server, name: str) -> AbstractContextManager[None]:
        """Replaces AWS's error for a missing job by NoSuchJob."""
        return known(server, f"{self.words} {self.label(name)}", self.lists)

    def find(self, aws: Aws, wanted: Wanted, limit: int | None) -> list[Job]:
        """Returns summaries, the newest first. Raises ServerRefused, NoServer."""
        asked: Parameters = {"SortBy": "CreationTime", "SortOrder": "Descending", "MaxResults": PAGE}
        if wanted.name_contains:
            asked["NameContains"] = wanted.name_contains
        if wanted.since is not None:
            asked["CreationTimeAfter"] = wanted.since
        if len(wanted.statuses) == 1:
            asked["StatusEquals"] = wanted.statuses[0]
        pages = aws.pages("sagemaker", f"list_{self.operations}s", **asked)
        jobs = (job for page in pages for job in page[f"{self.noun}Summaries"])
        return list(islice((job for job in jobs if not wanted.statuses or self.status(job) in wanted.statuses), limit))


class JobName(click.ParamType[str]):
    """A name that is completed from the server's jobs of some kinds."""

    def __init__(self, *kinds: Kind) -> None:
        self.name = kinds[0].words
        self._kinds = kinds

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list["click.shell_completion.CompletionItem"]:
        from click.shell_completion import CompletionItem

        try:
            aws, wanted = Aws(server_in(ctx)), Wanted(name_contains=incomplete)
            names = [kind.name(job) for kind in self._kinds for job in kind.find(aws, wanted, PAGE)]
        except SageletError:  # A message would garble the line that the user is typing.
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
