"""The job record: what sagelet knows of one training job. Immutable; `lifecycle.advance` makes the next one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


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
    """A job's name is unique in an account and region, compared without case (its ARN is in lower case)."""

    account: str
    region: str
    name: str

    @property
    def arn(self) -> str:
        """AWS writes the job's name in lower case in its ARN."""
        return f"arn:aws:sagemaker:{self.region}:{self.account}:training-job/{self.name.lower()}"


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

    #: Start of its Downloading; None when it never got so far.
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
    """The warm pool that a job runs in or leaves behind; times in ms since the epoch. Its rules: `warm_pools.py`."""

    status: PoolStatus
    #: Names the hosts through all the jobs that have them: the id of the first one.
    cluster: str
    #: When the first job got them; None when none ever did.
    cluster_ms: int | None
    #: Since when it waited for a matching job; None while it never did.
    available_ms: int | None = None
    #: When it was reused or terminated.
    ended_ms: int | None = None
    #: Name of the job that has it now.
    reused_by: str | None = None

    @property
    def retained_seconds(self) -> int | None:
        """ResourceRetainedBillableTimeInSeconds: whole epoch seconds, known once the pool is gone."""
        if self.ended_ms is None:
            return None
        return 0 if self.available_ms is None else self.ended_ms // 1000 - self.available_ms // 1000


@dataclass(frozen=True)
class Verdict:
    """How training ended, decided when the last host is down; made durable before the upload begins."""

    status: SecondaryStatus
    #: FailureReason of a failed job, already cut to AWS's 1024 characters.
    failure_reason: str | None = None
    #: Why sagelet failed the job, for people: AWS's text for a fault of the platform leaves no room for it.
    cause: str = ""


@dataclass(frozen=True)
class Compilation:
    """What became of a job's wish to be compiled."""

    compiled: bool
    #: What it is compiled for, or would have been: CPU, CUDA.
    platform: str
    #: Why, for people.
    reason: str


#: AWS's name for the one group of a job without InstanceGroups (seen in resourceconfig.json).
HOMOGENEOUS = "homogeneousCluster"


@dataclass(frozen=True)
class InstanceGroup:
    """Hosts of one instance type."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class TrainingJob:
    """All that is durable about one training job."""

    key: JobKey
    #: Unique for all time; a deleted job's name may be used again. Names the job to runtimes.
    id: str
    #: The accepted CreateTrainingJob body (without Tags): DescribeTrainingJob echoes it.
    request: Mapping[str, Any]
    created_ms: int
    modified_ms: int
    status: JobStatus = JobStatus.IN_PROGRESS
    secondary: SecondaryStatus = SecondaryStatus.STARTING
    transitions: tuple[Transition, ...] = ()
    #: TrainingStartTime: the start of Downloading (AWS bills from there); None when the job never got so far.
    training_start_ms: int | None = None
    training_end_ms: int | None = None
    #: Attempts that were interrupted or failed by a fault of the platform, oldest first.
    attempts: tuple[Attempt, ...] = ()
    #: Start of Downloading of the attempt under way.
    attempt_start_ms: int | None = None
    #: Share of the running time that managed spot training does not bill, 0 <= share < 1; fixed at creation.
    spot_discount: float = 0.0
    #: Set once a stop was asked for; the grace period counts from here.
    stop_ms: int | None = None
    stop_cause: StopCause | None = None
    verdict: Verdict | None = None
    failure_reason: str | None = None
    #: When the scheduler gave it its hosts; None while it waits.
    placed_ms: int | None = None
    #: The hosts were started: from here on a missing host is a fault, not something to start.
    launched: bool = False
    #: Local reference of the image that stands in for TrainingImage; None until it is resolved.
    image: str | None = None
    #: GPUs leased to the job, by UUID.
    gpus: tuple[str, ...] = ()
    #: The warm pool that it runs in or has left; None: it has none (yet).
    warm_pool: WarmPool | None = None
    #: What stands in for what was asked for (CPU workers for GPUs, say), for people; empty: nothing does.
    stand_in: str = ""
    #: What its hosts say of their compilation; None: nothing yet, or it asks for none.
    compilation: Compilation | None = None
    #: Guards updates: an update of an older version is refused.
    version: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def terminal(self) -> bool:
        return self.status.terminal

    @property
    def attempt(self) -> int:
        """Number of the attempt under way, from 1."""
        return len(self.attempts) + 1

    @property
    def launch_id(self) -> str:
        """Names the hosts of this attempt to runtimes: an earlier attempt's hosts are never taken for them."""
        return self.id if self.attempt == 1 else f"{self.id}-{self.attempt}"

    @property
    def spot(self) -> bool:
        return bool(self.request.get("EnableManagedSpotTraining"))

    @property
    def training_seconds(self) -> int | None:
        """TrainingTimeInSeconds: whole epoch seconds, end minus start; fits every public Describe output.

        At least 1 for spot: SDK v2 divides by it for the savings.
        """
        if self.training_start_ms is None or self.training_end_ms is None:
            return None
        return max(self.training_end_ms // 1000 - self.training_start_ms // 1000, int(self.spot))

    @property
    def billable_seconds(self) -> int | None:
        """BillableTimeInSeconds: all of the training time; with spot the attempts' running time less the discount."""
        if self.training_seconds is None or not self.spot:
            return self.training_seconds
        assert self.training_end_ms is not None
        ran = self.running_ms(self.training_end_ms) / 1000
        return max(1, min(self.training_seconds, int(ran * (1 - self.spot_discount))))

    def running_ms(self, now_ms: int) -> int:
        """Running time of all attempts, from the start of Downloading of each: what MaxRuntimeInSeconds limits."""
        current = 0 if self.attempt_start_ms is None else now_ms - self.attempt_start_ms
        return sum(attempt.run_ms for attempt in self.attempts) + current

    @property
    def max_wait_ms(self) -> int | None:
        """When MaxWaitTimeInSeconds of a spot job is over, ms since the epoch; None: no such limit."""
        seconds = self.request.get("StoppingCondition", {}).get("MaxWaitTimeInSeconds")
        return self.created_ms + int(seconds) * 1000 if self.spot and seconds is not None else None

    @property
    def retries_left(self) -> int:
        """How often the job may start again after an InternalServerError (RetryStrategy)."""
        used = sum(attempt.ended_by is SecondaryStatus.RESTARTING for attempt in self.attempts)
        return max(0, int(self.request.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)) - used)

    @property
    def keep_alive_seconds(self) -> int:
        """KeepAlivePeriodInSeconds: how long the hosts are kept when the job has ended; 0: they are not."""
        return int(self.request.get("ResourceConfig", {}).get("KeepAlivePeriodInSeconds", 0))

    @property
    def cluster(self) -> str | None:
        """Names the hosts of a job that runs in a warm pool or begins one; None: they go when the job ends."""
        if self.warm_pool is not None:
            return self.warm_pool.cluster
        return self.id if self.keep_alive_seconds else None

    @property
    def pool_available(self) -> bool:
        """Whether the job has ended and left its hosts to the next one that matches."""
        return self.warm_pool is not None and self.warm_pool.status is PoolStatus.AVAILABLE

    @property
    def retained_seconds(self) -> int | None:
        return None if self.warm_pool is None else self.warm_pool.retained_seconds

    @property
    def max_runtime_seconds(self) -> int:
        """MaxRuntimeInSeconds; one day where the request names none (AWS: StoppingCondition)."""
        return int(self.request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", 86_400))

    @property
    def instance_groups(self) -> tuple[InstanceGroup, ...]:
        """ResourceConfig.InstanceGroups, or the one group that all hosts of another job are in."""
        resources = self.request.get("ResourceConfig", {})
        alone = {"InstanceCount": 1, "InstanceType": "", **resources, "InstanceGroupName": HOMOGENEOUS}
        groups: list[InstanceGroup] = []
        first = 1
        for group in resources.get("InstanceGroups") or [alone]:
            numbers = range(first, first + int(group["InstanceCount"]))
            first = numbers.stop
            names = tuple(f"algo-{number}" for number in numbers)
            groups.append(InstanceGroup(group["InstanceGroupName"], group["InstanceType"], names))
        return tuple(groups)

    @property
    def hosts(self) -> tuple[str, ...]:
        """algo-1 .. algo-N, group by group."""
        return tuple(host for group in self.instance_groups for host in group.hosts)

    def group_of(self, host: str) -> InstanceGroup:
        return next(group for group in self.instance_groups if host in group.hosts)

    @property
    def model_uri(self) -> str:
        """Where the model goes: S3OutputPath/JOB/output/model.tar.gz (DescribeTrainingJob: ModelArtifacts)."""
        return f"{self.output_uri}/model.tar.gz"

    @property
    def output_uri(self) -> str:
        return f"{str(self.request['OutputDataConfig']['S3OutputPath']).rstrip('/')}/{self.key.name}/output"
