"""A batch that is larger than natively, with the native learning rate."""

import math
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.batch_size import batch_rows
from sagelet_engine.telemetry.compiler.worker import WorkerReport

RAISED = Threshold(1.2, "times the rows of a native step", "a rate tolerates smaller changes")
SAME = Threshold(0.02, "relative difference of the rates", "rates that were scaled differ by 10 % and more")


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    native = case.baseline.workers[0] if case.baseline and case.baseline.workers else None
    if worker is None or native is None or case.baseline is None:
        return
    before, now = (batch_rows(one) * one.world_size for one in (native, worker))
    rates = (_rate(native), _rate(worker))
    if not before or now < RAISED.value * before or not all(rates):
        return
    if abs(rates[1] - rates[0]) > SAME.value * rates[0]:
        return
    factor = now / before
    text = f"A step has {now} rows where the native job {case.baseline.job} has {before}, at the same learning rate "
    text += f"{rates[1]:g}"
    instead = (
        f"learning_rate={rates[0] * factor:.3g} ({factor:.3g} times, as the rows), or "
        f"{rates[0] * math.sqrt(factor):.3g} (the square root of that)."
    )
    yield Seen(Severity.WARNING, text, instead=instead)


def _rate(worker: WorkerReport) -> float:
    """Returns the learning rate. 0 if unknown."""
    return max((rate for optimizer in worker.optimizers for rate in optimizer.lr), default=0.0)


RULE = Rule(
    name="learning-rate",
    why="With k times the rows a step there are k times fewer steps for the same data; at the same rate the model "
    "learns less from it.",
    instead="Multiply the learning rate as the batch: by k, or by the square root of k.",
    section=Section.BEST_PRACTICES,
    check=check,
    thresholds=(RAISED, SAME),
)
