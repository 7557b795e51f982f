"""The job record as JSON text: how the store keeps it."""

import json
from dataclasses import asdict
from typing import Any

from sagelet_engine.jobs.record import (
    Attempt,
    Compilation,
    JobKey,
    JobStatus,
    PoolStatus,
    SecondaryStatus,
    StopCause,
    TrainingJob,
    Transition,
    Verdict,
    WarmPool,
)

#: Kept in columns and tables of their own.
COLUMNS = ("version", "tags")
#: What the record computes, kept beside it so that SQL can search for it.
FACTS = ("training_seconds", "billable_seconds", "retained_seconds")


def encode(job: TrainingJob) -> str:
    fields = {name: value for name, value in asdict(job).items() if name not in COLUMNS}
    fields["facts"] = {name: getattr(job, name) for name in FACTS}
    return json.dumps(fields, separators=(",", ":"))


def decode(text: str, version: int, tags: dict[str, str]) -> TrainingJob:
    fields: dict[str, Any] = json.loads(text)
    fields.pop("facts", None)
    fields["key"] = JobKey(**fields["key"])
    fields["status"] = JobStatus(fields["status"])
    fields["secondary"] = SecondaryStatus(fields["secondary"])
    fields["transitions"] = tuple(_transition(entry) for entry in fields["transitions"])
    fields["stop_cause"] = StopCause(fields["stop_cause"]) if fields["stop_cause"] else None
    fields["verdict"] = _verdict(fields["verdict"]) if fields["verdict"] else None
    fields["attempts"] = tuple(_attempt(entry) for entry in fields.get("attempts", ()))
    # A record from before there were attempts.
    fields.setdefault("attempt_start_ms", fields["training_start_ms"])
    fields["warm_pool"] = _warm_pool(fields["warm_pool"]) if fields.get("warm_pool") else None
    fields["compilation"] = Compilation(**fields["compilation"]) if fields.get("compilation") else None
    fields["gpus"] = tuple(fields["gpus"])
    return TrainingJob(**fields, version=version, tags=tags)


def _transition(fields: dict[str, Any]) -> Transition:
    return Transition(**{**fields, "status": SecondaryStatus(fields["status"])})


def _attempt(fields: dict[str, Any]) -> Attempt:
    return Attempt(**{**fields, "ended_by": SecondaryStatus(fields["ended_by"])})


def _warm_pool(fields: dict[str, Any]) -> WarmPool:
    return WarmPool(**{**fields, "status": PoolStatus(fields["status"])})


def _verdict(fields: dict[str, Any]) -> Verdict:
    return Verdict(SecondaryStatus(fields["status"]), fields["failure_reason"], fields.get("cause", ""))
