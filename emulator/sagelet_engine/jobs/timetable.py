"""What the clock alone will make the engine do to a job: for who turns the clock."""

import math
from collections.abc import Iterator

from sagelet_engine.jobs import faults, interruptions, lifecycle
from sagelet_engine.jobs.record import SecondaryStatus, TrainingJob


def next_ms(job: TrainingJob, now_ms: int) -> float:
    """When that is next, ms since the epoch; infinite: nothing of the kind is to come. May be in the past: due now.

    Leaves out the ends of hosts that were asked to end, which the record does not know.
    """
    return min(_moments(job, now_ms), default=math.inf)


def slow_start_seconds(job: TrainingJob, now_ms: int) -> float | None:
    """For how long yet the job's tag makes its start slow; None: it does not."""
    if job.placed_ms is None or job.secondary not in (SecondaryStatus.STARTING, SecondaryStatus.PENDING):
        return None
    try:
        slow = faults.starting(job, now_ms)
    except faults.InjectedFault:
        return None
    return None if slow is None else slow[1]


def _moments(job: TrainingJob, now_ms: int) -> Iterator[float]:
    if job.stop_cause is None and job.secondary in lifecycle.RUNNING:
        if job.attempt_start_ms is not None:
            yield now_ms + job.max_runtime_seconds * 1000 - job.running_ms(now_ms)
        if job.max_wait_ms is not None:
            yield job.max_wait_ms
    for moment in (interruptions.due_ms(job), faults.training_ms(job)):
        if moment is not None:
            yield moment
    slow = slow_start_seconds(job, now_ms)
    if slow is not None:
        yield now_ms + slow * 1000
