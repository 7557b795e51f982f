"""The job record as JSON text, as the store keeps it."""

import json
from collections.abc import Mapping
from enum import Enum

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import (
    Attempt,
    Job,
    JobKey,
    JobKind,
    JobStatus,
    Parent,
    PoolStatus,
    SecondaryStatus,
    StopCause,
    Transition,
    Verdict,
    WarmPool,
)
from sagelet_engine.model.listing import ListedJob
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.training import Compilation, TrainingJob

#: Not in the text: the first two have columns and tables of their own, and `spec` is read from the request.
LEFT_OUT = ("version", "tags", "spec")
#: Values that are computed from the record. They are stored in it so that SQL can search for them.
FACTS = ("training_seconds", "billable_seconds", "retained_seconds")

#: The columns of a list. The index of its usual order has them, so a list reads no record.
LISTED = "id, account, region, name, kind, created_ms, modified_ms, status, secondary, training_end_ms, shown"
#: The record of each kind of job.
_RECORDS: Mapping[JobKind, type[Job]] = {JobKind.TRAINING: TrainingJob, JobKind.PROCESSING: ProcessingJob}

#: Faster than a call of the enum.
_STATUSES = {status.value: status for status in JobStatus}
_SECONDARY = {status.value: status for status in SecondaryStatus}
_KINDS = {kind.value: kind for kind in JobKind}


def encode(job: Job) -> str:
    fields = {name: value for name, value in vars(job).items() if name not in LEFT_OUT}
    fields["facts"] = {name: getattr(job, name) for name in FACTS}
    # Uses `vars` of the dataclasses. `asdict` would copy the whole request, which takes as long as all else in this
    # function.
    return json.dumps(fields, separators=(",", ":"), default=_plain)


def shown(job: Job) -> str | None:
    """Returns what few jobs have and a list shows, as JSON. None for the others."""
    few = job.warm_pool, job.failure_reason, job.exit_message if isinstance(job, ProcessingJob) else None
    return None if few == (None, None, None) else json.dumps(few, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else vars(value)


def decode(text: str, version: int, tags: dict[str, str]) -> Job:
    fields: JsonObject = json.loads(text)
    fields.pop("facts", None)
    fields["key"] = _key(fields["key"])
    fields["status"] = _STATUSES[fields["status"]]
    fields["secondary"] = _SECONDARY[fields["secondary"]]
    fields["transitions"] = tuple(_transition(entry) for entry in fields["transitions"])
    fields["stop_cause"] = StopCause(fields["stop_cause"]) if fields["stop_cause"] else None
    fields["verdict"] = _verdict(fields["verdict"]) if fields["verdict"] else None
    fields["attempts"] = tuple(_attempt(entry) for entry in fields["attempts"])
    fields["parent"] = Parent(**fields["parent"]) if fields["parent"] else None
    fields["warm_pool"] = _warm_pool(fields["warm_pool"]) if fields["warm_pool"] else None
    if fields.get("compilation"):
        fields["compilation"] = Compilation(**fields["compilation"])
    fields["gpus"] = tuple(fields["gpus"])
    return _RECORDS[fields["key"].kind](**fields, version=version, tags=tags)


def decode_listed(
    job_id: str,
    account: str,
    region: str,
    name: str,
    kind: str,
    created_ms: int,
    modified_ms: int,
    status: str,
    secondary: str,
    training_end_ms: int | None,
    shown: str | None,
) -> ListedJob:
    """Decodes a job from the columns LISTED."""
    warm_pool, failure_reason, exit_message = (None, None, None) if shown is None else json.loads(shown)
    return ListedJob(
        job_id,
        JobKey(account, region, name, _KINDS[kind]),
        created_ms,
        modified_ms,
        _STATUSES[status],
        _SECONDARY[secondary],
        training_end_ms,
        _warm_pool(warm_pool) if warm_pool else None,
        failure_reason,
        exit_message,
    )


def _key(fields: dict[str, str]) -> JobKey:
    return JobKey(fields["account"], fields["region"], fields["name"], _KINDS[fields["kind"]])


def _transition(fields: JsonObject) -> Transition:
    return Transition(_SECONDARY[fields["status"]], fields["message"], fields["start_ms"], fields["end_ms"])


def _attempt(fields: JsonObject) -> Attempt:
    return Attempt(**{**fields, "ended_by": SecondaryStatus(fields["ended_by"])})


def _warm_pool(fields: JsonObject) -> WarmPool:
    return WarmPool(**{**fields, "status": PoolStatus(fields["status"])})


def _verdict(fields: JsonObject) -> Verdict:
    return Verdict(SecondaryStatus(fields["status"]), fields["failure_reason"], fields["cause"])
