"""A job's statuses over time: bars whose places and widths are the times that they lasted."""

from dataclasses import dataclass

from sagelet_engine.model.job import Job, Transition


@dataclass(frozen=True)
class Step:
    """One status. `left` and `width`: percent of the timeline."""

    entry: Transition
    left: float
    width: float


@dataclass(frozen=True)
class Timeline:
    steps: tuple[Step, ...]
    #: ms since the epoch. `end_ms` is now if the job runs.
    start_ms: int
    end_ms: int
    running: bool

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.start_ms) / 1000


def timeline(job: Job, now_ms: int) -> Timeline:
    """The job's statuses from its creation to its end, or to now. A status without a duration has no width."""
    start = job.transitions[0].start_ms
    end = max(entry.end_ms or entry.start_ms for entry in job.transitions)
    if not job.terminal:
        end = max(end, now_ms)
    whole = max(1, end - start)
    steps = []
    for entry in job.transitions:
        until = end if entry.end_ms is None else entry.end_ms
        steps.append(
            Step(
                entry,
                round((entry.start_ms - start) / whole * 100, 3),
                round((until - entry.start_ms) / whole * 100, 3),
            )
        )
    return Timeline(tuple(steps), start, end, not job.terminal)
