"""Trainings that end before compilation has paid off."""

import math
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.telemetry.compiler.worker import WorkerReport

SPEEDUP = Threshold(
    2.0, "times as fast as a native step is a compiled one taken to be", "AWS: up to 50 % less time; only a bound"
)
SHARE = Threshold(0.2, "of the time of compiling and training that compiling took", "less is not worth a change")


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    if worker is None or case.progress.status != "Completed" or not worker.steady_step_seconds or not worker.steps:
        return
    training = worker.steps * worker.steady_step_seconds
    if worker.compile_seconds < SHARE.value * (worker.compile_seconds + training):
        return
    native = case.native_step_seconds
    text = f"Compiling took {worker.compile_seconds:.1f} s, the {worker.steps} steps {training:.1f} s"
    even = break_even(worker, native or SPEEDUP.value * worker.steady_step_seconds)
    if even is not None and worker.steps >= even:
        return
    yield Seen(Severity.INFO, text + _verdict(case, worker, native, even), None, None, worker.compile_seconds)


def break_even(worker: WorkerReport, native_step: float) -> int | None:
    """Returns the step at which the time saved by compiled steps equals the time of compiling. None if they save
    none.
    """
    saved = native_step - worker.steady_step_seconds
    return math.ceil(worker.compile_seconds / saved) if saved > 0 else None


def _verdict(case: Case, worker: WorkerReport, native: float, even: int | None) -> str:
    step = f"{worker.steady_step_seconds * 1000:.1f} ms a step"
    if not native or case.baseline is None:
        return f" ({step}). Even if native steps took twice as long, compiling would pay from step {even} on only"
    against = f" ({step}, natively {native * 1000:.1f} ms in {case.baseline.job})"
    if even is None:
        text = f"{against}: the compiled steps are no faster here, so compiling does not pay at any step"
    else:
        text = f"{against}: compiling pays from step {even} on"
    return text + case.one_run_of_each


RULE = Rule(
    name="short-training",
    why="Compilation is paid once, in the first steps; a training must go on long enough for its faster steps to "
    "win that time back.",
    instead="Train longer (more epochs or data in one job), or leave the compiler off for a run as short as this.",
    section=Section.PERFORMANCE,
    check=check,
    thresholds=(SHARE, SPEEDUP),
)
