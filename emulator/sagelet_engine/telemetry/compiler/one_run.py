"""How far the speed of one run can be trusted. Pure.

One run does not say how far runs vary. It only says what slowed it down that it could notice: its steps became slower
for a while (`drift`), or its threads waited for a CPU (`crowding`). Two runs of equal jobs may differ by all of that,
and by what no run can notice: another virtual machine, the clock of the CPU, the order of data. So two single runs are
told apart only if they differ by more than the product. Then runs that are slowed down cannot contradict each other:
the factor would have to be passed in both directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import WorkerReport

#: What no run can notice. Equal jobs on an idle machine differ by less than a third of it.
UNNOTICED = 1.5
#: A second program that wants every CPU leaves half of them. Assumed where the kernel does not count.
SECOND_PROGRAM = 2.0
#: Fewer steps than these show no drift.
FEWEST_STEPS = 8
#: Less drift or crowding than this is not worth a sentence.
_WORTH_SAYING = 1.1


@dataclass(frozen=True)
class Trust:
    """What two runs, one of each job, say about their speed."""

    #: Equal jobs may differ by this factor. None if a run has too few steps to know.
    factor: float | None
    #: Why it is so large, for people. Empty if the machine was idle.
    reason: str = ""

    def tells_apart(self, before: float | None, after: float | None, unknown: float = 0.0) -> bool:
        """True if two figures differ by more than equal jobs may. `unknown`: what either figure's resolution hides."""
        if self.factor is None or not before or not after or min(before, after) <= unknown:
            return False
        larger, smaller = max(before, after), min(before, after)
        return (larger - unknown) / (smaller + unknown) > self.factor

    def interval(self, ratio: float) -> tuple[float, float] | None:
        """Returns between what the ratio of two equal jobs' figures may be. None if nobody knows."""
        return None if self.factor is None else (ratio / self.factor, ratio * self.factor)


def trust(named: Sequence[tuple[str, CompilerReport]]) -> Trust:
    """Returns how far one run of each of two jobs can be trusted. `named`: the jobs' names for people, and reports."""
    drifts = [(name, _drift(report)) for name, report in named]
    if short := [name for name, drift in drifts if drift is None]:
        why = f"fewer than {FEWEST_STEPS} steps that compiled nothing, or waited too seldom for the device to time them"
        return Trust(None, f"{' and '.join(short)} reported {why}")
    slowest = max((drift or 1.0, name) for name, drift in drifts)
    crowded = max((_crowding(report), name) for name, report in named)
    reasons = []
    if slowest[0] > _WORTH_SAYING:
        reasons.append(f"some steps of {slowest[1]} took {slowest[0]:.1f} times as long as others")
    if crowded[0] > _WORTH_SAYING:
        reasons.append(_crowded_text(crowded[1], crowded[0], named))
    return Trust(UNNOTICED * slowest[0] * crowded[0], "; ".join(reasons))


def _crowded_text(name: str, factor: float, named: Sequence[tuple[str, CompilerReport]]) -> str:
    if all(worker.cpu_seconds for _, report in named for worker in report.workers):
        share = (1 - 1 / factor) * 100
        return f"the threads of {name} waited for a CPU for {share:.0f}% of the time that they needed one"
    return "whether other programs used the CPUs is not known"


def _crowding(report: CompilerReport) -> float:
    """Returns how many times longer the threads of the slowest worker needed, because they had no CPU."""
    known = [1 + one.cpu_wait_seconds / one.cpu_seconds for one in report.workers if one.cpu_seconds]
    return max(known) if known and len(known) == len(report.workers) else SECOND_PROGRAM


def _drift(report: CompilerReport) -> float | None:
    """Returns the slowest part's mean step over the fastest one's, of the worker that varies most.

    None if a worker has too few steps, or its clock showed no time for some of them.
    """
    found = [_drift_of(worker) for worker in report.workers]
    if not found or None in found:
        return None
    return max(one for one in found if one is not None)


def _drift_of(worker: WorkerReport) -> float | None:
    """By the times at which the device was done: the script's own clock sees the queue fill and run empty."""
    steps = worker.step_seconds
    if not steps.quarters or steps.steps < FEWEST_STEPS:
        return None
    return max(steps.quarters) / min(steps.quarters) if min(steps.quarters) > 0 else None
