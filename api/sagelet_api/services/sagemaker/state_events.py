"""Status changes of training jobs as AWS's events: `SageMaker Training Job State Change` on the default event bus.

They are as in the SageMaker developer guide ("Events that Amazon SageMaker AI sends to Amazon EventBridge"), with times
in ms since the epoch. The guide says that AWS may send several for a change of status; here there is one for each entry
of SecondaryStatusTransitions, so TrainingJobStatus InProgress comes several times.
"""

import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Protocol

from sagelet_api.protocol.members import Output
from sagelet_api.services.sagemaker import training_view, tuning_view
from sagelet_engine.model.job import Transition
from sagelet_engine.model.orchestration import Orchestration
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import TuningJob

SOURCE = "aws.sagemaker"
DETAIL_TYPE = "SageMaker Training Job State Change"
TUNING_DETAIL_TYPE = "SageMaker HyperParameter Tuning Job State Change"

#: The same job and status always make the same id, so a receiver can recognize an event that comes twice.
_NAMESPACE = uuid.UUID("0f5b8f0e-6a0b-4c57-9d2f-3a1c4d0e7b21")


class EventBus(Protocol):
    def put_event(self, account: str, region: str, event: Mapping[str, Any]) -> None:
        """Passes an event to the rules of the account's default event bus. Does not raise."""
        ...


class StateEvents:
    """A StatusSink that makes an event of every status."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def announce(self, job: TrainingJob | Orchestration) -> None:
        if isinstance(job, TrainingJob):
            event = state_change(job)
        elif isinstance(job, TuningJob):
            event = tuning_state_change(job)
        else:
            # No other kind has events.
            return
        self._bus.put_event(job.key.account, job.key.region, event)


def state_change(job: TrainingJob) -> Output:
    """Returns the event, as its targets read it."""
    return _event(job, f"{job.id} {len(job.transitions)}", DETAIL_TYPE, job.transitions[-1].start_ms, _detail(job))


def tuning_state_change(job: TuningJob) -> Output:
    """Returns the event of a tuning job. The guide's example has the answer of the Describe call and the tags."""
    return _event(job, f"{job.id} {job.status.value}", TUNING_DETAIL_TYPE, job.modified_ms, _tuning_detail(job))


def _event(job: TrainingJob | Orchestration, identity: str, detail_type: str, time_ms: int, detail: Output) -> Output:
    return {
        "version": "0",
        "id": str(uuid.uuid5(_NAMESPACE, identity)),
        "detail-type": detail_type,
        "source": SOURCE,
        "account": job.key.account,
        "time": datetime.fromtimestamp(time_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
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
