"""The record of an orchestration of any kind, and of what it knows of its children. Immutable.

An orchestration has no hosts, and makes other jobs. `tuning.py` has what only tuning jobs have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.arns import arn

O = TypeVar("O", bound="Orchestration")  # noqa: E741 - as J of `job.py`
C = TypeVar("C", bound="Child")


class OrchestrationKind(Enum):
    """AWS's kinds of orchestrations. The value is the kind's name in ARNs."""

    TUNING = "hyper-parameter-tuning-job"
    PIPELINE_EXECUTION = "pipeline"


class OrchestrationStatus(str, Enum):
    """The statuses that botocore's shape HyperParameterTuningJobStatus has, without those of a deletion."""

    IN_PROGRESS = "InProgress"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def terminal(self) -> bool:
        return not _FOLLOWS[self]


S = OrchestrationStatus

#: The statuses that may follow each status.
_FOLLOWS: dict[OrchestrationStatus, tuple[OrchestrationStatus, ...]] = {
    S.IN_PROGRESS: (S.STOPPING, S.COMPLETED, S.FAILED),
    S.STOPPING: (S.STOPPED, S.FAILED),
    S.COMPLETED: (),
    S.FAILED: (),
    S.STOPPED: (),
}


class IllegalStatus(SageletError):
    """A bug in sagelet: the table does not allow this step."""


@dataclass(frozen=True)
class OrchestrationKey:
    """The name of an orchestration, unique for its kind in an account and region. Case does not count."""

    account: str
    region: str
    name: str
    kind: OrchestrationKind

    @property
    def arn(self) -> str:
        """Returns the ARN. As in a job's, AWS writes the name in lower case."""
        return arn("sagemaker", self.region, self.account, f"{self.kind.value}/{self.name.lower()}")


@dataclass(frozen=True)
class Orchestration:
    """All durable data of one orchestration, except its children; times in ms since the epoch."""

    key: OrchestrationKey
    #: Unique for all time. The ids of its children follow from it.
    id: str
    #: The accepted body of the Create call (without Tags).
    request: Mapping[str, Any]
    created_ms: int
    modified_ms: int
    status: OrchestrationStatus = S.IN_PROGRESS
    ended_ms: int | None = None
    failure_reason: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    #: Counts the writes of the record. An update names the version that it started from.
    version: int = 0

    @property
    def terminal(self) -> bool:
        return self.status.terminal


@dataclass(frozen=True)
class Child:
    """What an orchestration knows of one job that it makes. A kind adds the fields."""

    #: From 1. Unique in its orchestration.
    ordinal: int

    @property
    def list_order(self) -> int:
        """The place among its orchestration's children in lists. Unique among them."""
        return self.ordinal


def enter(record: O, to: OrchestrationStatus, now_ms: int, **changes: Any) -> O:
    """Returns the record after entering a status. Raises IllegalStatus. No time is less than the one before it."""
    if to not in _FOLLOWS[record.status]:
        raise IllegalStatus(f"{record.key.name}: {record.status.value} -> {to.value}")
    now_ms = max(now_ms, record.modified_ms)
    return replace(record, status=to, modified_ms=now_ms, ended_ms=now_ms if to.terminal else None, **changes)


def revive(record: O, now_ms: int, **changes: Any) -> O:
    """Returns a failed or stopped record that begins again. Raises IllegalStatus for one in another status."""
    if record.status not in (S.FAILED, S.STOPPED):
        raise IllegalStatus(f"{record.key.name}: {record.status.value} cannot begin again")
    now_ms = max(now_ms, record.modified_ms)
    begun = {"status": S.IN_PROGRESS, "modified_ms": now_ms, "ended_ms": None, "failure_reason": None}
    return replace(record, **{**begun, **changes})
