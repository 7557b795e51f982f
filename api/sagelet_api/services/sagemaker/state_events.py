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
from sagelet_api.services.sagemaker import training_view
from sagelet_engine.model.job import Transition
from sagelet_engine.model.training import TrainingJob

SOURCE = "aws.sagemaker"
DETAIL_TYPE = "SageMaker Training Job State Change"

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

    def announce(self, job: TrainingJob) -> None:
        self._bus.put_event(job.key.account, job.key.region, state_change(job))


def state_change(job: TrainingJob) -> Output:
    """Returns the event, as its targets read it."""
    entered = job.transitions[-1]
    return {
        "version": "0",
        "id": str(uuid.uuid5(_NAMESPACE, f"{job.id} {len(job.transitions)}")),
        "detail-type": DETAIL_TYPE,
        "source": SOURCE,
        "account": job.key.account,
        "time": datetime.fromtimestamp(entered.start_ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": job.key.region,
        "resources": [job.key.arn],
        "detail": _detail(job),
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
