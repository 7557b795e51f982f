"""What pytest shows of the jobs that failed while a test ran: their FailureReason and their last lines."""

from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from sagelet_api.cli.text import printable
from sagelet_engine.model.job import JobKind

if TYPE_CHECKING:
    import boto3

#: The most jobs of a kind, and the lines of each.
MOST, LINES = 3, 10
#: The most pages of 100 jobs that are looked through for them. AWS filters a page by status after it was cut.
PAGES = 5
#: By kind: the operations, the key of the list, the key of the name, the log group.
_KINDS = (
    ("training_job", "TrainingJobSummaries", "TrainingJobName", JobKind.TRAINING.log_group),
    ("processing_job", "ProcessingJobSummaries", "ProcessingJobName", JobKind.PROCESSING.log_group),
)


def sections(session: "boto3.Session", since: float | None) -> Iterator[tuple[str, str]]:
    """Yields a title and a text for each failed job of the session's account, the newest first.

    `since`: seconds since the epoch; jobs that changed last before then are left out. None: all jobs.
    """
    sagemaker = session.client("sagemaker")
    after = {} if since is None else {"LastModifiedTimeAfter": datetime.fromtimestamp(since, timezone.utc)}
    asked: dict[str, Any] = {"StatusEquals": "Failed", "SortBy": "CreationTime", "SortOrder": "Descending", **after}
    for kind, listed, key, group in _KINDS:
        pages = sagemaker.get_paginator(f"list_{kind}s").paginate(MaxResults=100, **asked)
        failed = (one[key] for page in islice(pages, PAGES) for one in page[listed])
        for name in islice(failed, MOST):
            reason = getattr(sagemaker, f"describe_{kind}")(**{key: name}).get("FailureReason", "")
            title = f"sagelet: {kind.replace('_', ' ')} {name} failed"
            # What a job printed is not for the terminal to obey.
            yield title, printable("\n".join([reason, *_last_lines(session, group, name)]))


def _last_lines(session: "boto3.Session", group: str, name: str) -> list[str]:
    """Returns the last lines of a job's newest stream, under a heading. Empty if it printed nothing."""
    logs = session.client("logs")
    if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        return []  # no job of the account has printed anything
    streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]
    if not streams:
        return []
    newest = max(streams, key=lambda one: one.get("lastEventTimestamp", 0))["logStreamName"]
    events = logs.get_log_events(logGroupName=group, logStreamName=newest, limit=LINES, startFromHead=False)["events"]
    return [f"Last lines of {newest}:", *(event["message"] for event in events)] if events else []
