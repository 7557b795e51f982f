"""A job that printed nothing and used no CPU for most of its time, at one stretch."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, Waiting
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold

SHARE = Threshold(
    0.5,
    "of the training, at one stretch, without a line, a step and CPU time",
    "below, it did something else for longer",
)
LEAST = Threshold(60.0, "seconds without them", "CPU time is measured once a minute")
#: The least seconds of a stall.
STALLED_S = 600
#: The innermost calls that a finding names.
_CALLS = 4


def check(case: Case) -> Iterator[Seen]:
    idle, training = case.progress.idle, case.progress.training_seconds
    # A job that still trains and is silent for longer has the finding `stall`.
    if (case.progress.silent_seconds or 0) >= STALLED_S:
        return
    if idle.seconds < LEAST.value or idle.seconds < SHARE.value * training:
        return
    text = f"No line, no step and no CPU time for {idle.seconds:.0f} s of the {training:.0f} s of training"
    since = f", from second {idle.after_seconds:.0f} on" if idle.after_seconds else ""
    yield Seen(Severity.WARNING, text + since + where(idle.waiting, "waited"), None, None, idle.seconds)


def where(waiting: Waiting, verb: str) -> str:
    """Returns `; worker 0 waits in ...`. Empty if nobody knows where a process was."""
    who = "the script" if waiting.rank is None else f"worker {waiting.rank}"
    return f"; {who} {verb} in {', called by '.join(waiting.stack[:_CALLS])}" if waiting.stack else ""


RULE = Rule(
    name="idle",
    why="A job that waits is billed like one that trains. It waits for input that does not come, for a lock, for "
    "another worker, or for a service on the network.",
    instead="Look at the call in which it waited; where the finding names none, import faulthandler and call "
    "faulthandler.dump_traceback_later(300) in the script. Give downloads and locks a timeout, and set "
    "MaxRuntimeInSeconds.",
    section=Section.RUNNING,
    check=check,
    thresholds=(SHARE, LEAST),
)
