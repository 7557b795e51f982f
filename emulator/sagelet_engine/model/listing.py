"""A list of jobs of one kind as a query to the store: filters, order, and where to continue."""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from sagelet_engine.model.job import Job, JobKey, JobKind, JobStatus, PoolStatus, SecondaryStatus, WarmPool
from sagelet_engine.model.orchestration import Orchestration


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
    """What ListTrainingJobs and ListProcessingJobs can ask. Times in ms since the epoch, or None for no such filter."""

    account: str
    region: str
    kind: JobKind = JobKind.TRAINING
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


class ListedJob(NamedTuple):
    """What a list shows of a job (botocore shapes TrainingJobSummary, ProcessingJobSummary). Times are in ms since the
    epoch.

    A tuple, because a page makes hundreds and a frozen dataclass takes five times as long.
    """

    id: str
    key: JobKey
    created_ms: int
    modified_ms: int
    status: JobStatus
    secondary: SecondaryStatus
    training_end_ms: int | None
    warm_pool: WarmPool | None
    failure_reason: str | None = None
    exit_message: str | None = None


Record = TypeVar("Record", bound="Job | ListedJob | Orchestration")


@dataclass(frozen=True)
class JobPage(Generic[Record]):
    jobs: list[Record]
    #: Where the next page starts. None if this was the last.
    next: Cursor | None
