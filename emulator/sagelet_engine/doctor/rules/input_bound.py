"""Steps that wait for their batch."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources, constant, keyword, opaque

SHARE = Threshold(0.3, "of a step's time spent waiting for its batch", "below, other costs are as large")
WAIT = Threshold(0.005, "seconds of a step spent waiting", "less is the loader's own overhead, not preprocessing")
TOTAL = Threshold(1.0, "seconds of waiting in all", "less is not worth a change")


def check(case: Case) -> Iterator[Seen]:
    """Checks the worker that waits longest, because it holds all others up."""
    workers = [worker for worker in case.report.workers if worker.compiled]
    worker = max(workers, key=lambda one: one.steady_input_wait_seconds, default=None)
    if worker is None or worker.steps < ENOUGH_STEPS.value or not worker.steady_step_seconds:
        return
    wait, step = worker.steady_input_wait_seconds, worker.steady_step_seconds
    if wait < max(WAIT.value, SHARE.value * step) or wait * worker.steps < TOTAL.value:
        return
    place = _place(case.sources)
    share = min(1.0, wait / step)
    text = f"A step took {step * 1000:.0f} ms and waited {wait * 1000:.0f} ms ({share:.0%}) of it for its batch"
    text += case.sources.quoted(place)
    yield Seen(Severity.WARNING, text, place, None, wait * worker.steps)


def _place(sources: Sources) -> SourceLine | None:
    """Returns the only DataLoader, if it has no workers."""
    loaders = list(sources.calls("DataLoader"))
    if len(loaders) != 1:
        return None
    ((script, call),) = loaders
    workers = keyword(call, "num_workers")
    without = not opaque(call) and (workers is None or constant(workers) == 0)
    return SourceLine(script.path, call.lineno) if without else None


RULE = Rule(
    name="input-bound",
    why="The device is idle while a step waits for its batch; a faster program does not help.",
    instead="Preprocess in other processes: DataLoader(num_workers=N, persistent_workers=True), for the Trainer "
    "TrainingArguments(dataloader_num_workers=N); or once, before the training (Dataset.map with num_proc, AWS: "
    "preprocessing_num_workers).",
    section=Section.BEST_PRACTICES,
    check=check,
    thresholds=(ENOUGH_STEPS, SHARE, WAIT, TOTAL),
)
