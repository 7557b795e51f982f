"""Several workers that exchange no gradients."""

from collections.abc import Iterator, Sequence

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources
from sagelet_engine.telemetry.compiler.worker import WorkerReport

STEPS = Threshold(5, "optimizer steps without an exchange", "the first exchange comes with the first steps")
SIZE = Threshold(0.5, "of the gradients' bytes, from a step to the next", "they may travel in half of their precision")


def check(case: Case) -> Iterator[Seen]:
    """Checks jobs of XLA on CPUs only. Elsewhere collectives are not counted, or part of the compiled programs."""
    workers = [worker for worker in case.report.workers if worker.compiled and worker.world_size > 1]
    if (
        not workers
        or case.by_inductor
        or any(worker.platform != "CPU" or worker.collectives.gradient_exchanges for worker in workers)
    ):
        return
    steps = min(worker.optimizer_steps for worker in workers)
    if steps < STEPS.value:
        return
    place = _place(case.sources)
    text = f"{workers[0].world_size} workers did {steps} optimizer steps each and exchanged {_exchanged(workers)}"
    yield Seen(Severity.ERROR, text + case.sources.quoted(place), place, steps)


def _exchanged(workers: Sequence[WorkerReport]) -> str:
    most = max((worker.collectives for worker in workers), key=lambda one: one.bytes)
    if not most.count:
        return "nothing"
    times = "one collective" if most.count == 1 else f"{most.count} collectives"
    return f"no gradients: {times} of {most.bytes} bytes in all, where a step's gradients have {most.gradient_bytes}"


def _place(sources: Sources) -> SourceLine | None:
    """Returns the first optimizer step in a loop."""
    for script, call in sources.calls("step"):
        if script.in_loop(call.lineno):
            return SourceLine(script.path, call.lineno)
    return None


RULE = Rule(
    name="gradients-not-reduced",
    why="Each worker trains a model of its own on its own share of the data, so the job gives what one worker would.",
    instead="xm.optimizer_step(optimizer) in place of optimizer.step(): it averages the gradients over all workers; or "
    "gradients = xm._fetch_gradients(optimizer); xm.all_reduce('sum', gradients, scale=1.0 / xm.xrt_world_size()).",
    section=Section.WRONG_API,
    check=check,
    thresholds=(STEPS, SIZE),
)
