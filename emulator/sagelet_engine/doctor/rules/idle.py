"""A job that printed nothing and used no CPU from some moment until its end, or until now, for most of its time."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold

SHARE = Threshold(
    0.5,
    "of the training without a line, a step and CPU time, at its end or until now",
    "below, it did something else for longer",
)
LEAST = Threshold(60.0, "seconds without them", "CPU time is measured once a minute")
#: The least seconds of a stall.
STALLED_S = 600
#: The innermost calls that a finding names.
_CALLS = 4


def check(case: Case) -> Iterator[Seen]:
    idle, training = case.progress.idle_seconds, case.progress.training_seconds
    # A job that still trains and is silent for longer has the finding `stall`.
    if (case.progress.silent_seconds or 0) >= STALLED_S or idle < LEAST.value or idle < SHARE.value * training:
        return
    text = f"No line, no step and no CPU time at the end, for {idle:.0f} s of the {training:.0f} s of training"
    yield Seen(Severity.WARNING, text + where(case), None, None, idle)


def where(case: Case) -> str:
    """Returns `; worker 0 is in ...`, for a worker that has said so. Empty if none has."""
    for worker in case.report.workers:
        if worker.idle_stack and not worker.finished:
            return f"; worker {worker.rank} hangs in {', called by '.join(worker.idle_stack[:_CALLS])}"
    return ""


RULE = Rule(
    name="idle",
    why="A job that waits is billed like one that trains. It waits for input that does not come, for a lock, for "
    "another worker, or for a service on the network.",
    instead="Look at the call in which it hangs; where the finding names none, import faulthandler and call "
    "faulthandler.dump_traceback_later(300) in the script. Give downloads and locks a timeout, and set "
    "MaxRuntimeInSeconds.",
    section=Section.RUNNING,
    check=check,
    thresholds=(SHARE, LEAST),
)
