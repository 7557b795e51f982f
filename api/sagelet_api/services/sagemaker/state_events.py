"""Status changes of jobs as AWS's events: `SageMaker Training Job State Change` on the default event bus, and others.

They are as in the SageMaker developer guide ("Events that Amazon SageMaker AI sends to Amazon EventBridge"), with times
in ms since the epoch. The guide says that AWS may send several for a change of status; here there is one for each entry
of SecondaryStatusTransitions, so TrainingJobStatus InProgress comes several times.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Protocol

from sagelet_api.protocol.members import Output
from sagelet_api.services.sagemaker import pipeline_view, processing_view, training_view, tuning_view
from sagelet_engine.model.job import Job, JobStatus, Transition
from sagelet_engine.model.orchestration import Orchestration
from sagelet_engine.model.pipeline import PipelineExecution
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.model.tuning import TuningJob

SOURCE = "aws.sagemaker"
DETAIL_TYPE = "SageMaker Training Job State Change"
PROCESSING_DETAIL_TYPE = "SageMaker Processing Job State Change"
EXECUTION_DETAIL_TYPE = "SageMaker Model Building Pipeline Execution Status Change"
TUNING_DETAIL_TYPE = "SageMaker HyperParameter Tuning Job State Change"

#: The same job and status always make the same id, so a receiver can recognize an event that comes twice.
_NAMESPACE = uuid.UUID("0f5b8f0e-6a0b-4c57-9d2f-3a1c4d0e7b21")


class EventBus(Protocol):
    @property
    def has_any_rules(self) -> bool:
        """True if `has_rules` is true for an account. Does not raise."""
        ...

    def has_rules(self, account: str, region: str) -> bool:
        """True if the account's default event bus has a rule that may take an event. Does not raise."""
        ...

    def put_event(self, account: str, region: str, event: Mapping[str, Any]) -> None:
        """Passes an event to the rules of the account's default event bus. Does not raise."""
        ...


class StateEvents:
    """A StatusSink that makes an event of every status."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    @property
    def is_heard(self) -> bool:
        return self._bus.has_any_rules

    def announce(self, job: Job | Orchestration) -> None:
        account, region = job.key.account, job.key.region
        if self._bus.has_rules(account, region) and (event := _event_of(job)) is not None:
            self._bus.put_event(account, region, event)


def _event_of(job: Job | Orchestration) -> Output | None:
    """Returns the event of a status, or None if AWS sends none."""
    if isinstance(job, PipelineExecution):
        return execution_state_change(job)
    if isinstance(job, Orchestration):
        return tuning_state_change(job) if isinstance(job, TuningJob) else None
    if isinstance(job, ProcessingJob):
        return processing_state_change(job)
    return state_change(as_training(job))


def state_change(job: TrainingJob) -> Output:
    """Returns the event, as its targets read it."""
    return _event(job, f"{job.id} {len(job.transitions)}", DETAIL_TYPE, job.transitions[-1].start_ms, _detail(job))


def processing_state_change(job: ProcessingJob) -> Output | None:
    """Returns the event of a processing job: the answer of the Describe call and the tags.

    Processing jobs have one status, so a step that does not change it makes no event.
    """
    before = job.transitions[:-1]
    if before and job.status is JobStatus.IN_PROGRESS:
        return None
    times = {
        "CreationTime": job.created_ms,
        "ProcessingStartTime": job.training_start_ms,
        "ProcessingEndTime": job.training_end_ms,
        "LastModifiedTime": job.modified_ms,
    }
    detail = {
        **processing_view.describe(job),
        **{name: time_ms for name, time_ms in times.items() if time_ms is not None},
        "Tags": dict(job.tags),
    }
    return _event(job, f"{job.id} {job.status.value}", PROCESSING_DETAIL_TYPE, job.transitions[-1].start_ms, detail)


def tuning_state_change(job: TuningJob) -> Output:
    """Returns the event of a tuning job. The guide's example has the answer of the Describe call and the tags."""
    return _event(job, f"{job.id} {job.status.value}", TUNING_DETAIL_TYPE, job.modified_ms, _tuning_detail(job))


def execution_state_change(execution: PipelineExecution) -> Output:
    """Returns the event of an execution of a pipeline (developer guide, "SageMaker pipeline state change")."""
    status = pipeline_view.STATUSES[execution.status]
    before = "Stopping" if status == "Stopped" else "Executing"
    detail: Output = {
        "pipelineArn": execution.pipeline_key.arn,
        "pipelineExecutionArn": execution.key.arn,
        "currentPipelineExecutionStatus": status,
        "previousPipelineExecutionStatus": before,
        "executionStartTime": _iso(execution.created_ms),
    }
    if execution.ended_ms is not None:
        detail["executionEndTime"] = _iso(execution.ended_ms)
    names = {"pipelineExecutionDisplayName", "pipelineExecutionDescription"}
    detail |= {name: given for name in names if (given := execution.request.get(f"P{name[1:]}")) is not None}
    identity = f"{execution.id} {execution.version} {status}"
    event = _event(execution, identity, EXECUTION_DETAIL_TYPE, execution.modified_ms, detail)
    return {**event, "resources": [execution.pipeline_key.arn, execution.key.arn]}


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _event(job: Job | Orchestration, identity: str, detail_type: str, time_ms: int, detail: Output) -> Output:
    return {
        "version": "0",
        "id": str(uuid.uuid5(_NAMESPACE, identity)),
        "detail-type": detail_type,
        "source": SOURCE,
        "account": job.key.account,
        "time": _iso(time_ms),
        "region": job.key.region,
        "resources": [job.key.arn],
        "detail": detail,
    }


def _tuning_detail(job: TuningJob) -> Output:
    times = {
        "CreationTime": job.created_ms,
        "LastModifiedTime": job.modified_ms,
        "HyperParameterTuningEndTime": job.ended_ms,
    }
    return {
        # The end of a job needs no clock, and the resources of a running one are not in the event.
        **tuning_view.describe(job, job.modified_ms),
        **{name: time_ms for name, time_ms in times.items() if time_ms is not None},
        "Tags": dict(job.tags),
    }


def _detail(job: TrainingJob) -> Output:
    """Returns the answer of DescribeTrainingJob, with the event's times and the tags."""
    times = {
        "CreationTime": job.created_ms,
        "TrainingStartTime": job.training_start_ms,
        "TrainingEndTime": job.training_end_ms,
        "LastModifiedTime": job.modified_ms,
    }
    return {
        **training_view.describe(job, ()),
        **{name: time_ms for name, time_ms in times.items() if time_ms is not None},
        "SecondaryStatusTransitions": [_transition(entry) for entry in job.transitions],
        "Tags": dict(job.tags),
    }


def _transition(entry: Transition) -> Output:
    times = {"StartTime": entry.start_ms} | ({} if entry.end_ms is None else {"EndTime": entry.end_ms})
    return {"Status": entry.status.value, **times, "StatusMessage": entry.message}
