"""A job that trains but has stopped to print and to report."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, all_steps
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.idle import STALLED_S, where

SILENT = Threshold(STALLED_S, "seconds without a line or a step", "longer than XLA compiles all but the largest models")


def check(case: Case) -> Iterator[Seen]:
    silent = case.progress.silent_seconds
    if silent is None or silent < SILENT.value:
        return
    text = f"No line and no step for {_minutes(silent)}: {_state(case)}{where(case.progress.waiting, 'waits')}"
    yield Seen(Severity.WARNING, text, None, None, silent)


def _state(case: Case) -> str:
    workers = [worker for worker in case.report.workers if not worker.finished]
    if not workers:
        return "no worker has reported anything, so the script may not have come as far as to import torch"
    if case.progress.compiling_seconds:
        return f"{case.compiler_name} has been compiling one program for {_minutes(case.progress.compiling_seconds)}"
    steps = {worker.rank: all_steps(worker) for worker in workers}
    if len(set(steps.values())) > 1:
        behind = min(steps, key=lambda rank: steps[rank])
        text = f"worker {behind} is at step {steps[behind]}, others are at step {max(steps.values())}: they wait for a "
        return text + "collective that not all of them call"
    if not case.by_inductor and any(worker.optimizer_steps >= 1 and not worker.markers for worker in workers):
        return f"{max(steps.values())} optimizer steps, and no graph was ever ended (mark_step)"
    return f"{'all workers are' if len(workers) > 1 else 'the worker is'} at step {max(steps.values())}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes"


RULE = Rule(
    name="stall",
    why="AWS: failing to set mark_step() correctly causes a training job to stall. So does a collective that one "
    "worker does not call, and a data loader that waits.",
    instead="End each step with xm.mark_step() on every worker, and call the same collectives in the same order on "
    "all; `if xm.is_master_ordinal()` must hold no collective.",
    section=Section.WRONG_API,
    check=check,
    thresholds=(SILENT,),
)
