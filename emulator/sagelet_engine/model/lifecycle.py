"""The life of a job: a table of statuses, and the only function that moves a job along it.

Texts of `aws_texts` are AWS's. Order and clock rules are those of public DescribeTrainingJob outputs. Each status has
one transition, whose message is updated in place. Each EndTime equals the next StartTime. TrainingStartTime is the
start of Downloading. TrainingEndTime is the start of the terminal status, or for a failed job the time when the failure
was detected (botocore: DescribeTrainingJobResponse).
"""

from dataclasses import dataclass, replace
from typing import Any, TypedDict

from sagelet_engine.base.errors import JobNotInterruptible, SageletError
from sagelet_engine.model import aws_texts, warm_pools
from sagelet_engine.model.job import Attempt, J, Job, JobKind, JobStatus, SecondaryStatus, StopCause, Transition

S = SecondaryStatus

WAITING_FOR_CAPACITY = aws_texts.WAITING_FOR_CAPACITY
PREPARING_INSTANCES = aws_texts.PREPARING_INSTANCES
DOWNLOADING_IMAGE = aws_texts.DOWNLOADING_IMAGE


class IllegalTransition(SageletError):
    """A bug in sagelet: the table does not allow this step."""


@dataclass(frozen=True)
class Rule:
    """What happens when a job enters a secondary status."""

    job_status: JobStatus
    message: str
    follows: frozenset[SecondaryStatus]


def _rule(job_status: JobStatus, message: str, *follows: SecondaryStatus) -> Rule:
    return Rule(job_status, message, frozenset(follows))


RUNNING = (S.STARTING, S.PENDING, S.DOWNLOADING, S.TRAINING)

#: These end an attempt of the job, not the job.
ENDING_ATTEMPT = (S.INTERRUPTED, S.RESTARTING)

RULES: dict[SecondaryStatus, Rule] = {
    S.STARTING: _rule(JobStatus.IN_PROGRESS, aws_texts.STARTING, *ENDING_ATTEMPT),
    # Only a job that has to wait gets this status. A job that finds capacity at once goes on from Starting.
    S.PENDING: _rule(JobStatus.IN_PROGRESS, WAITING_FOR_CAPACITY, S.STARTING),
    S.DOWNLOADING: _rule(JobStatus.IN_PROGRESS, aws_texts.DOWNLOADING_INPUT, S.STARTING, S.PENDING),
    S.TRAINING: _rule(JobStatus.IN_PROGRESS, aws_texts.TRAINING, S.DOWNLOADING),
    # These two last until the attempt's hosts are down.
    S.INTERRUPTED: _rule(
        JobStatus.IN_PROGRESS, "The managed spot training instances were interrupted", S.DOWNLOADING, S.TRAINING
    ),
    S.RESTARTING: _rule(JobStatus.IN_PROGRESS, "Restarting the training job", *RUNNING),
    S.STOPPING: _rule(JobStatus.STOPPING, aws_texts.STOPPING, *RUNNING, S.UPLOADING, *ENDING_ATTEMPT),
    # AWS also uploads the results of a failed job. A stopping job uploads within Stopping.
    S.UPLOADING: _rule(JobStatus.IN_PROGRESS, aws_texts.UPLOADING, S.TRAINING),
    S.COMPLETED: _rule(JobStatus.COMPLETED, aws_texts.COMPLETED, S.UPLOADING, S.STOPPING),
    S.FAILED: _rule(JobStatus.FAILED, aws_texts.FAILED, *RUNNING, S.UPLOADING, S.STOPPING, *ENDING_ATTEMPT),
    S.STOPPED: _rule(JobStatus.STOPPED, aws_texts.STOPPED, S.STOPPING),
    S.MAX_RUNTIME_EXCEEDED: _rule(
        JobStatus.STOPPED, "Training job runtime exceeded MaxRuntimeInSeconds provided", S.STOPPING
    ),
    S.MAX_WAIT_TIME_EXCEEDED: _rule(
        JobStatus.STOPPED, "Training job runtime exceeded MaxWaitTimeInSeconds provided", S.STOPPING
    ),
}

#: The terminal status of a stopped job, by what stopped it.
STOPPED_AS = {
    StopCause.USER: S.STOPPED,
    StopCause.MAX_RUNTIME: S.MAX_RUNTIME_EXCEEDED,
    StopCause.MAX_WAIT: S.MAX_WAIT_TIME_EXCEEDED,
}


#: Messages of processing jobs. AWS shows none, so these are for people only.
_PROCESSING: dict[SecondaryStatus, str] = {
    S.STARTING: "Starting the processing job",
    S.PENDING: "Processing job waiting for capacity",
    S.TRAINING: "Processing in progress",
    S.STOPPING: "Stopping the processing job",
    S.UPLOADING: "Uploading the outputs",
    S.COMPLETED: "Processing job completed",
    S.FAILED: "Processing job failed",
    S.STOPPED: "Processing job stopped",
    S.MAX_RUNTIME_EXCEEDED: "Processing job runtime exceeded MaxRuntimeInSeconds provided",
}


def message_of(status: SecondaryStatus, kind: JobKind) -> str:
    """Returns the message with which a job of a kind enters a status."""
    told = _PROCESSING.get(status) if kind is JobKind.PROCESSING else None
    return told or RULES[status].message


def created(now_ms: int, kind: JobKind = JobKind.TRAINING) -> tuple[Transition, ...]:
    """Returns the transitions of a job that has just been created."""
    return (Transition(S.STARTING, message_of(S.STARTING, kind), now_ms),)


def advance(job: J, to: SecondaryStatus, now_ms: int, message: str | None = None, **changes: Any) -> J:
    """Returns the job after entering `to` at `now_ms` (or, if it is in `to` already, with a new message). `changes` are
    other fields.

    Raises IllegalTransition if the table does not allow the step. If the clock went back, the record does not: no time
    is less than the one before it.
    """
    current = job.transitions[-1]
    now_ms = max(now_ms, job.modified_ms, current.start_ms)
    if to is current.status:
        renamed = replace(current, message=message or current.message)
        return replace(job, transitions=(*job.transitions[:-1], renamed), modified_ms=now_ms, **changes)
    rule = RULES[to]
    if current.status not in rule.follows:
        raise IllegalTransition(f"{job.key.name}: {current.status.value} -> {to.value}")
    entered = Transition(
        to, message or message_of(to, job.key.kind), now_ms, now_ms if rule.job_status.terminal else None
    )
    advanced = replace(
        job,
        status=rule.job_status,
        secondary=to,
        transitions=(*job.transitions[:-1], replace(current, end_ms=now_ms), entered),
        modified_ms=now_ms,
        **_clock(job, to, rule, now_ms),
        **changes,
    )
    return replace(advanced, warm_pool=warm_pools.after_end(advanced)) if advanced.terminal else advanced


class _Clock(TypedDict, total=False):
    """Fields of a job that a step of its training clock changes, ms since the epoch."""

    training_start_ms: int
    attempt_start_ms: int
    training_end_ms: int


def _clock(job: Job, to: SecondaryStatus, rule: Rule, now_ms: int) -> _Clock:
    """Returns the changes to the training clock on entering `to`. The bill follows from this clock."""
    if to is S.DOWNLOADING:
        first = now_ms if job.training_start_ms is None else job.training_start_ms
        return {"training_start_ms": first, "attempt_start_ms": now_ms}
    if rule.job_status.terminal and job.training_start_ms is not None:
        # The failure was known when the upload began, unless the upload itself failed.
        detected = to is S.FAILED and job.verdict is not None and job.verdict.status is S.FAILED
        return {"training_end_ms": job.transitions[-1].start_ms if detected else now_ms}
    return {}


def request_stop(job: J, cause: StopCause, now_ms: int) -> J:
    """Returns the job after a stop was asked for. A job that is being stopped already stays as it is."""
    if job.stop_cause is not None:
        return job
    return advance(job, S.STOPPING, now_ms, stop_ms=now_ms, stop_cause=cause)


def interrupt(job: J, now_ms: int) -> J:
    """Returns the job after its spot instances were taken away. Raises JobNotInterruptible if it has none."""
    if not job.spec.spot:
        raise JobNotInterruptible(f"{job.key.name} has no spot instances: submit it with EnableManagedSpotTraining")
    if job.secondary not in RULES[S.INTERRUPTED].follows:
        raise JobNotInterruptible(
            f"{job.key.name} is in status {job.secondary.value}: only a job that downloads or trains can be interrupted"
        )
    return advance(job, S.INTERRUPTED, now_ms)


def preparing(job: Job, stand_in: str | None = None) -> str:
    """Returns the status message of a job that has its place and starts. `stand_in`: None for the record's own."""
    told = job.stand_in if stand_in is None else stand_in
    text = "Preparing the instances for processing" if _processes(job) else PREPARING_INSTANCES
    return f"{text} ({told})" if told else text


def downloading_image(job: Job) -> str:
    """Returns the status message of a job whose inputs are here."""
    return "Downloading the image" if _processes(job) else DOWNLOADING_IMAGE


def _processes(job: Job) -> bool:
    return job.key.kind is JobKind.PROCESSING


def restart(job: J, now_ms: int, *, keeps_place: bool = True) -> J:
    """Returns the next attempt of an interrupted or restarting job whose hosts are down.

    It keeps its place and its GPUs, or goes back to where jobs wait.
    """
    place = {} if keeps_place else {"placed_ms": None, "gpus": (), "stand_in": ""}
    now_ms = max(now_ms, job.modified_ms)
    ended = Attempt(job.attempt_start_ms, now_ms, job.secondary, job.transitions[-1].message)
    return advance(
        job.without_attempt(),
        S.STARTING,
        now_ms,
        preparing(job) if keeps_place else message_of(S.STARTING, job.key.kind),
        **place,
        attempts=(*job.attempts, ended),
        attempt_start_ms=None,
        launched=False,
    )


def overdue(job: Job, now_ms: int) -> StopCause | None:
    """Returns the limit of StoppingCondition that the job has reached. None if there is none, or if the job is being
    stopped already.
    """
    if job.stop_cause is not None:
        return None
    if job.running_ms(now_ms) >= job.spec.max_runtime_seconds * 1000:
        return StopCause.MAX_RUNTIME
    if job.max_wait_ms is not None and now_ms >= job.max_wait_ms:
        return StopCause.MAX_WAIT
    return None
