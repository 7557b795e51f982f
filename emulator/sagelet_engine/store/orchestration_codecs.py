"""Orchestrations and their children as JSON text, as the store keeps them. Each kind has a codec."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.orchestration import (
    C,
    Child,
    O,
    Orchestration,
    OrchestrationKey,
    OrchestrationKind,
    OrchestrationStatus,
)
from sagelet_engine.model.pipeline import PipelineExecution, StepRun, StepState, StepStatus
from sagelet_engine.model.tuning import Counters, Ending, Inherited, Trial, TrialState, TuningJob, WarmStart

#: Columns and tables of their own have these; `spec` is read from the request.
_LEFT_OUT = ("version", "tags", "spec")


@dataclass(frozen=True)
class Codec(Generic[O, C]):
    """Reads one kind. Both functions take the fields of the JSON text."""

    kind: OrchestrationKind
    #: The fields that every kind has are in their types already.
    record: Callable[[JsonObject], O]
    child: Callable[[JsonObject], C]


def encode(record: Orchestration) -> str:
    fields = {name: value for name, value in vars(record).items() if name not in _LEFT_OUT}
    return _json({**fields, "facts": _facts(record)})


def _facts(record: Orchestration) -> JsonObject:
    """Returns values that are computed from the record. They are stored in it so that SQL can search for them."""
    if not isinstance(record, TuningJob) or record.overall_best is None:
        return {}
    best, best_of = record.overall_best
    return {"overall_best": best, "overall_best_of": best_of}


def encode_child(child: Child) -> str:
    return _json(child)


def decode(text: str, version: int, tags: str) -> Orchestration:
    """Reads a record of any kind."""
    fields: JsonObject = json.loads(text)
    kind = OrchestrationKind(fields["key"]["kind"])
    record: Orchestration = CODECS[kind].record(_common(fields, kind, version, tags))
    return record


def decode_as(codec: Codec[O, C], text: str, version: int, tags: str) -> O:
    """Reads a record of a known kind."""
    return codec.record(_common(json.loads(text), codec.kind, version, tags))


def decode_child(codec: Codec[O, C], text: str) -> C:
    return codec.child(json.loads(text))


def _common(fields: JsonObject, kind: OrchestrationKind, version: int, tags: str) -> JsonObject:
    return {
        **{name: value for name, value in fields.items() if name != "facts"},
        "key": OrchestrationKey(**{**fields["key"], "kind": kind}),
        "status": OrchestrationStatus(fields["status"]),
        "version": version,
        "tags": json.loads(tags),
    }


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else vars(value)


# --- tuning jobs ------------------------------------------------------------------------------------------------------


def _tuning_job(fields: JsonObject) -> TuningJob:
    fields["counters"] = Counters(**fields["counters"])
    fields["best"] = _trial(fields["best"]) if fields["best"] else None
    fields["ending"] = Ending(fields["ending"]) if fields["ending"] else None
    fields["warm_start"] = _warm_start(fields["warm_start"]) if fields["warm_start"] else None
    return TuningJob(**fields)


def _warm_start(fields: JsonObject) -> WarmStart:
    inherited = tuple(Inherited(**one) for one in fields["inherited"])
    return WarmStart(inherited, _trial(fields["best"]) if fields["best"] else None, fields["best_of"])


def _trial(fields: JsonObject) -> Trial:
    status = JobStatus(fields["status"]) if fields["status"] else None
    return Trial(**{**fields, "state": TrialState(fields["state"]), "status": status})


TUNING = Codec(OrchestrationKind.TUNING, _tuning_job, _trial)


# --- executions of pipelines ------------------------------------------------------------------------------------------


def _step_run(fields: JsonObject) -> StepRun:
    return StepRun(**{**fields, "state": StepState(fields["state"]), "status": StepStatus(fields["status"])})


PIPELINE_EXECUTION = Codec(OrchestrationKind.PIPELINE_EXECUTION, lambda fields: PipelineExecution(**fields), _step_run)

CODECS: Mapping[OrchestrationKind, Codec[Any, Any]] = {codec.kind: codec for codec in (TUNING, PIPELINE_EXECUTION)}
