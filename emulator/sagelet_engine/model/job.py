"""The record of a job of any kind: what sagelet knows of it. Immutable; `lifecycle.advance` makes the next record.

`training.py` has what only training jobs have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, TypeVar

from sagelet_engine.model.arns import arn
from sagelet_engine.model.spec import JobSpec


class JobKind(Enum):
    """AWS's kinds of jobs. The value is the kind's name in ARNs."""

    TRAINING = "training-job"
    PROCESSING = "processing-job"

    @property
    def log_group(self) -> str:
        """The CloudWatch Logs group of the kind's hosts, which is also the namespace of its instance metrics."""
        return _LOG_GROUPS[self]

    @property
    def noun(self) -> str:
        """What AWS's texts call a job of this kind: `training job`."""
        return _NOUNS[self]


J = TypeVar("J", bound="Job")

_LOG_GROUPS = {
    JobKind.TRAINING: "/aws/sagemaker/TrainingJobs",
    JobKind.PROCESSING: "/aws/sagemaker/ProcessingJobs",
}
_NOUNS = {JobKind.TRAINING: "training job", JobKind.PROCESSING: "processing job"}


class JobStatus(str, Enum):
    """TrainingJobStatus of DescribeTrainingJob (botocore shape TrainingJobStatus)."""

    IN_PROGRESS = "InProgress"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def terminal(self) -> bool:
        return self in (JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.STOPPED)


class SecondaryStatus(str, Enum):
    """SecondaryStatus of DescribeTrainingJob (botocore shape SecondaryStatus)."""

    STARTING = "Starting"
    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    TRAINING = "Training"
    UPLOADING = "Uploading"
    STOPPING = "Stopping"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPED = "Stopped"
    MAX_RUNTIME_EXCEEDED = "MaxRuntimeExceeded"
    MAX_WAIT_TIME_EXCEEDED = "MaxWaitTimeExceeded"
    INTERRUPTED = "Interrupted"
    RESTARTING = "Restarting"


class StopCause(str, Enum):
    """Why a job is being stopped before its script ended by itself."""

    USER = "user"
    MAX_RUNTIME = "max-runtime"
    MAX_WAIT = "max-wait"


@dataclass(frozen=True)
class JobKey:
    """A job's name is unique for its kind in an account and region. Case does not count: the ARN is in lower case."""

    account: str
    region: str
    name: str
    kind: JobKind = JobKind.TRAINING

    @property
    def arn(self) -> str:
        """Returns the ARN. AWS writes the job's name in lower case in it."""
        return arn("sagemaker", self.region, self.account, f"{self.kind.value}/{self.name.lower()}")


@dataclass(frozen=True)
class Transition:
    """One entry of SecondaryStatusTransitions; times in ms since the epoch."""

    status: SecondaryStatus
    message: str
    start_ms: int
    #: None while the status lasts; equal to the start for a terminal status.
    end_ms: int | None = None


@dataclass(frozen=True)
class Attempt:
    """One attempt that ended before the job did; times in ms since the epoch."""

    #: Start of its Downloading. None if it never got so far.
    start_ms: int | None
    end_ms: int
    #: Interrupted (spot) or Restarting (an internal fault, retried).
    ended_by: SecondaryStatus
    #: For people.
    reason: str

    @property
    def run_ms(self) -> int:
        return 0 if self.start_ms is None else self.end_ms - self.start_ms


class PoolStatus(str, Enum):
    """Status of a warm pool (botocore shape WarmPoolResourceStatus)."""

    AVAILABLE = "Available"
    IN_USE = "InUse"
    REUSED = "Reused"
    TERMINATED = "Terminated"


@dataclass(frozen=True)
class WarmPool:
    """The warm pool that a job runs in or leaves behind. Times are in ms since the epoch. `warm_pools.py` has its
    rules.
    """

    status: PoolStatus
    #: Names the hosts for all the jobs that use them: the id of the first job.
    cluster: str
    #: When the first job got them. None if no job ever did.
    cluster_ms: int | None
    #: Since when it waited for a matching job. None if it never did.
    available_ms: int | None = None
    #: When it was reused or terminated.
    ended_ms: int | None = None
    #: Name of the job that uses it now.
    reused_by: str | None = None

    @property
    def retained_seconds(self) -> int | None:
        """Returns ResourceRetainedBillableTimeInSeconds: whole epoch seconds, known once the pool is gone."""
        if self.ended_ms is None:
            return None
        return 0 if self.available_ms is None else self.ended_ms // 1000 - self.available_ms // 1000


@dataclass(frozen=True)
class Verdict:
    """The end of training. It is decided when the last host is down, and made durable before the upload begins."""

    status: SecondaryStatus
    #: FailureReason of a failed job, already cut to AWS's 1024 characters.
    failure_reason: str | None = None
    #: Why sagelet failed the job, for people. AWS's text for a fault of the platform leaves no room for it.
    cause: str = ""


@dataclass(frozen=True)
class Parent:
    """The orchestration that made a job."""

    id: str
    arn: str


@dataclass(frozen=True)
class Job:
    """All durable data of one job, whatever its kind. `spec` says what it asks for."""

    key: JobKey
    #: Unique for all time, while a deleted job's name may be used again. Names the job to runtimes.
    id: str
    #: The accepted body of the Create call (without Tags). The Describe call echoes it.
    request: Mapping[str, Any]
    created_ms: int
    modified_ms: int
    #: None if a client made it.
    parent: Parent | None = None
    status: JobStatus = JobStatus.IN_PROGRESS
    secondary: SecondaryStatus = SecondaryStatus.STARTING
    transitions: tuple[Transition, ...] = ()
    #: TrainingStartTime: the start of Downloading (AWS bills from there). None if the job never got so far.
    training_start_ms: int | None = None
    training_end_ms: int | None = None
    #: Attempts that were interrupted or failed by a fault of the platform, oldest first.
    attempts: tuple[Attempt, ...] = ()
    #: Start of Downloading of the present attempt.
    attempt_start_ms: int | None = None
    #: Share of the running time that managed spot training does not bill, 0 <= share < 1. Fixed at creation.
    spot_discount: float = 0.0
    #: Set when a stop was asked for. The grace period counts from here.
    stop_ms: int | None = None
    stop_cause: StopCause | None = None
    verdict: Verdict | None = None
    failure_reason: str | None = None
    #: When the scheduler gave it its hosts. None while it waits.
    placed_ms: int | None = None
    #: True once the hosts were started. From then on a missing host is a fault, and is not started again.
    launched: bool = False
    #: Local reference of the image that stands in for TrainingImage. None until it is resolved.
    image: str | None = None
    #: Name of the runtime that runs its hosts. Empty until it is resolved.
    runtime: str = ""
    #: GPUs leased to the job, by UUID.
    gpus: tuple[str, ...] = ()
    #: The warm pool that it runs in or has left. None if it has none (yet).
    warm_pool: WarmPool | None = None
    #: What stands in for requested resources (for example CPU workers for GPUs), for people. Empty if nothing does.
    stand_in: str = ""
    #: Guards updates: an update of an older version is refused.
    version: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def terminal(self) -> bool:
        return self.status.terminal

    @property
    def attempt(self) -> int:
        """The number of the present attempt, from 1."""
        return len(self.attempts) + 1

    @property
    def launch_id(self) -> str:
        """Names the hosts of this attempt to runtimes, so that an earlier attempt's hosts are never taken for them."""
        return self.id if self.attempt == 1 else f"{self.id}-{self.attempt}"

    @cached_property
    def spec(self) -> JobSpec:
        """What the job asks for. Raises NotImplementedError for a record without a kind."""
        raise NotImplementedError

    @property
    def spot(self) -> bool:
        """True with managed spot training."""
        return self.spec.spot

    @property
    def hyperparameters(self) -> Mapping[str, str]:
        """Returns the HyperParameters by which Search finds the job. Empty if its kind has none."""
        return {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """Returns algo-1 .. algo-N, group by group."""
        return self.spec.hosts

    def without_attempt(self: J) -> J:
        """Returns the job without the data that its kind keeps of the attempt that has just ended."""
        return self

    @property
    def training_seconds(self) -> int | None:
        """Returns TrainingTimeInSeconds: whole epoch seconds, end minus start, which fits every public Describe output.

        At least 1 for spot, because SDK v2 divides by it for the savings.
        """
        if self.training_start_ms is None or self.training_end_ms is None:
            return None
        return max(self.training_end_ms // 1000 - self.training_start_ms // 1000, int(self.spot))

    @property
    def billable_seconds(self) -> int | None:
        """Returns BillableTimeInSeconds: all of the training time; with spot the attempts' running time less the
        discount.
        """
        if self.training_seconds is None or not self.spot:
            return self.training_seconds
        assert self.training_end_ms is not None
        ran = self.running_ms(self.training_end_ms) / 1000
        return max(1, min(self.training_seconds, int(ran * (1 - self.spot_discount))))

    def running_ms(self, now_ms: int) -> int:
        """Returns the running time of all attempts, from the start of Downloading of each. MaxRuntimeInSeconds limits
        it.
        """
        current = 0 if self.attempt_start_ms is None else now_ms - self.attempt_start_ms
        return sum(attempt.run_ms for attempt in self.attempts) + current

    @property
    def max_wait_ms(self) -> int | None:
        """Returns the end of MaxWaitTimeInSeconds of a spot job in ms since the epoch, or None without such a limit."""
        seconds = self.spec.max_wait_seconds
        return self.created_ms + seconds * 1000 if self.spot and seconds is not None else None

    @property
    def retries_left(self) -> int:
        """Returns how often the job may start again after an InternalServerError (RetryStrategy)."""
        used = sum(attempt.ended_by is SecondaryStatus.RESTARTING for attempt in self.attempts)
        return max(0, self.spec.retries - used)

    @property
    def cluster(self) -> str | None:
        """Names the hosts of a job that runs in a warm pool or begins one. None if its hosts go when the job ends."""
        if self.warm_pool is not None:
            return self.warm_pool.cluster
        return self.id if self.spec.keep_alive_seconds else None

    @property
    def pool_available(self) -> bool:
        """True if the job has ended and left its hosts to the next matching job."""
        return self.warm_pool is not None and self.warm_pool.status is PoolStatus.AVAILABLE

    @property
    def retained_seconds(self) -> int | None:
        return None if self.warm_pool is None else self.warm_pool.retained_seconds
