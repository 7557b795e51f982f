"""What the passing of time alone will make the engine do to a job."""

import math
from collections.abc import Iterator

from sagelet_engine.model import faults, interruptions, lifecycle
from sagelet_engine.model.job import Job, SecondaryStatus


def next_ms(job: Job, now_ms: int) -> float:
    """Returns the next such moment, ms since the epoch, or infinite if there is none. A past one is due now.

    Leaves out the ends of hosts that were asked to end, since the record does not have them.
    """
    return min(_moments(job, now_ms), default=math.inf)


def slow_start_seconds(job: Job, now_ms: int) -> float | None:
    """Returns how many more seconds the job's tag delays its start, or None if it does not."""
    if job.placed_ms is None or job.secondary not in (SecondaryStatus.STARTING, SecondaryStatus.PENDING):
        return None
    try:
        slow = faults.starting(job, now_ms)
    except faults.InjectedFault:
        return None
    return None if slow is None else slow[1]


def _moments(job: Job, now_ms: int) -> Iterator[float]:
    if job.stop_cause is None and job.secondary in lifecycle.RUNNING:
        if job.attempt_start_ms is not None:
            yield now_ms + job.spec.max_runtime_seconds * 1000 - job.running_ms(now_ms)
        if job.max_wait_ms is not None:
            yield job.max_wait_ms
    for moment in (interruptions.due_ms(job), faults.training_ms(job)):
        if moment is not None:
            yield moment
    slow = slow_start_seconds(job, now_ms)
    if slow is not None:
        yield now_ms + slow * 1000
