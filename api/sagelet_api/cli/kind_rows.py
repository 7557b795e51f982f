"""All kinds of jobs, and how commands find a job of one of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from sagelet_api.cli.aws_client import INVALID, Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.kinds import Job, JobName, Kind, NoSuchJob
from sagelet_api.cli.processing_jobs import PROCESSING
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.cli.tuning_jobs import TUNING
from sagelet_api.servers.server import Server

#: Names are looked for in this order.
KINDS = (TRAINING, TUNING, PROCESSING)


def described(kind: Kind, aws: Aws, server: Server, name: str) -> Job:
    """Returns a job. If there is none, the error names the kind that has one of this name.

    Raises NoSuchJob, ServerRefused, NoServer.
    """
    with naming_its_kind(kind, server, name, aws):
        return kind.describe(aws, server, name)


@contextmanager
def naming_its_kind(kind: Kind, server: Server, name: str, aws: Aws | None = None) -> Iterator[None]:
    """Has the error for a missing job, or for a name that no job of the kind can have, name the kind that has one of
    this name.
    """
    try:
        yield
    except (NoSuchJob, ServerRefused) as missing:
        if isinstance(missing, ServerRefused) and missing.code != INVALID:
            raise
        aws = aws or Aws(server)
        for other in KINDS:
            if other is not kind and other.exists(aws, name):
                raise NoSuchJob(f"{name} is a {other.words}: `{other.command}` has {other.offers}") from missing
        raise


def named(kind: Kind, *, several: bool = False) -> Callable[[Any], Any]:
    """Adds the argument for a job, as `name: str`, or for jobs, as `names: tuple[str, ...]`."""
    if several:
        return click.argument("names", metavar=f"{kind.metavar}...", nargs=-1, required=True, type=JobName(kind))
    return click.argument("name", metavar=kind.metavar, type=JobName(kind))
