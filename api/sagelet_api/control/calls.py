"""Helpers of all control endpoints: they find the job or the account that a request means."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sagelet_api.protocol.calls import DEFAULT_ACCOUNT, DEFAULT_REGION
from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.model.job import JobKey, JobKind

if TYPE_CHECKING:
    from werkzeug.exceptions import NotFound

#: What lists the jobs of a kind.
_LISTS = {JobKind.TRAINING: "sagelet jobs", JobKind.PROCESSING: "sagelet processing list"}


def place_asked_for() -> tuple[str, str]:
    """Returns account and region of the request's `?account=&region=`, or sagelet's defaults."""
    from flask import request

    return request.args.get("account", DEFAULT_ACCOUNT), request.args.get("region", DEFAULT_REGION)


@contextmanager
def known_job(name: str, kind: JobKind = JobKind.TRAINING) -> Iterator[JobKey]:
    """Gives the job that the request's path and `?account=&region=` name. A missing job becomes a 404."""
    account, region = place_asked_for()
    key = JobKey(account, region, name, kind)
    try:
        yield key
    except JobNotFound as error:
        raise no_such_job(key) from error


def no_such_job(key: JobKey) -> "NotFound":
    from werkzeug.exceptions import NotFound

    return NotFound(
        f"Account {key.account} has no {key.kind.noun} {key.name} in {key.region}: `{_LISTS[key.kind]}` lists them; "
        "--account and --region name others"
    )
