"""Device memory that a larger batch could use, and learning rates that did not follow the batch."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS
from sagelet_engine.telemetry.compiler.worker import WorkerReport

USED = Threshold(0.5, "of the device's memory in use at most", "below half, twice the batch may still fit")


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    if worker is None or worker.steps < ENOUGH_STEPS.value:
        return
    rows = batch_rows(worker)
    text = " and ".join(filter(None, [_as_natively(case, rows), _room(worker)]))
    if text and rows:
        yield Seen(Severity.INFO, f"A batch has {rows} rows{', ' if not text.startswith(' ') else ''}{text.strip()}")


def batch_rows(worker: WorkerReport) -> int:
    """Returns the number of rows that most batches of one worker have. 0 if unknown."""
    return worker.batch_shapes[0].shape[0] if worker.batch_shapes and worker.batch_shapes[0].shape else 0


def _as_natively(case: Case, rows: int) -> str:
    native = case.baseline.workers[0] if case.baseline and case.baseline.workers else None
    if native is None or not rows or batch_rows(native) != rows or case.baseline is None:
        return ""
    return f"as many as in the native job {case.baseline.job}"


def _room(worker: WorkerReport) -> str:
    memory = worker.memory
    if memory.kind != "device" or not memory.limit_bytes or not memory.peak_bytes:
        return ""
    if memory.peak_bytes > USED.value * memory.limit_bytes:
        return ""
    used, limit = memory.peak_bytes / 2**30, memory.limit_bytes / 2**30
    return f"at most {used:.1f} of the device's {limit:.1f} GiB were in use"


RULE = Rule(
    name="batch-size",
    why="The compiler needs less memory for the same batch, so a larger one fits; it makes better use of the device "
    "and takes fewer steps for the same data.",
    instead="Raise batch_size until the device's memory is full, and the learning rate with it: for k times the rows "
    "take k times the rate, or the square root of k times the rate.",
    section=Section.BEST_PRACTICES,
    check=check,
    thresholds=(ENOUGH_STEPS, USED),
)
