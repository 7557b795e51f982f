"""Optimizer steps, but no mark_step."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources

UNENDED = Threshold(5, "optimizer steps without one that ended its graph", "a script may well end after one or two")


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    if worker is None or case.by_inductor or worker.steps or worker.optimizer_steps < UNENDED.value or worker.markers:
        return
    text = f"{worker.optimizer_steps} optimizer steps, and none of them was ended by a mark_step or torch_xla.sync"
    yield Seen(Severity.ERROR, text, _place(case.sources), worker.optimizer_steps)


def _place(sources: Sources) -> SourceLine | None:
    """Returns the first optimizer step in a loop."""
    for script, call in sources.calls("step"):
        if script.in_loop(call.lineno):
            return SourceLine(script.path, call.lineno)
    return None


RULE = Rule(
    name="missing-mark-step",
    why="On AWS nothing is run without it: the graph grows by every step, until memory is full or a value is asked "
    "for. Its documents say that the job stalls. (sagelet runs what is pending before each optimizer step, so here the "
    "job goes on.)",
    instead="End each step: xm.optimizer_step(optimizer, barrier=True), or xm.mark_step() behind optimizer.step(), or "
    "take the batches from torch_xla.distributed.parallel_loader.MpDeviceLoader, which does it.",
    section=Section.WRONG_API,
    check=check,
    thresholds=(UNENDED,),
)
