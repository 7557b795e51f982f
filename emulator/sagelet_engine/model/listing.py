"""ListTrainingJobs as a query to the store: filters, order, and where to continue."""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from sagelet_engine.model.job import JobKey, JobStatus, PoolStatus, SecondaryStatus, WarmPool
from sagelet_engine.model.orchestration import Orchestration
from sagelet_engine.model.training import TrainingJob


class SortBy(str, Enum):
    """botocore shape SortBy; the default is AWS's."""

    NAME = "Name"
    CREATION_TIME = "CreationTime"
    STATUS = "Status"


@dataclass(frozen=True)
class Cursor:
    """The last job of a page: its value in the requested order, and its id."""

    value: str | int
    job_id: str


@dataclass(frozen=True)
class JobQuery:
    """What ListTrainingJobs can ask. Times in ms since the epoch, or None for no such filter."""

    account: str
    region: str
    created_after_ms: int | None = None
    created_before_ms: int | None = None
    modified_after_ms: int | None = None
    modified_before_ms: int | None = None
    #: Part of the name, compared without case.
    name_contains: str | None = None
    status: JobStatus | None = None
    training_plan_arn: str | None = None
    warm_pool: PoolStatus | None = None
    sort_by: SortBy = SortBy.CREATION_TIME
    ascending: bool = True
    limit: int = 10
    after: Cursor | None = None


@dataclass(frozen=True)
class ListedJob:
    """What a list shows of a job (botocore shape TrainingJobSummary); times in ms since the epoch."""

    id: str
    key: JobKey
    created_ms: int
    modified_ms: int
    status: JobStatus
    secondary: SecondaryStatus
    training_end_ms: int | None
    warm_pool: WarmPool | None


Job = TypeVar("Job", bound=TrainingJob | ListedJob | Orchestration)


@dataclass(frozen=True)
class JobPage(Generic[Job]):
    jobs: list[Job]
    #: Where the next page starts. None if this was the last.
    next: Cursor | None
