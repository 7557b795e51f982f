"""Steps that take Python longer than the GPU."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.batch_size import batch_rows
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS

SHARE = Threshold(
    0.6, "of a step's time, without waiting for its batch, in which the device works", "above, it is busy"
)
TOTAL = Threshold(5.0, "seconds in all in which it does not", "less is not worth a change")


def check(case: Case) -> Iterator[Seen]:
    """On a CPU, Python and the device share the cores, so that their times say nothing about each other."""
    worker = case.lead
    if worker is None or worker.platform == "CPU" or not worker.execute_seconds or worker.steps < ENOUGH_STEPS.value:
        return
    step = worker.steady_step_seconds - worker.steady_input_wait_seconds
    device, tracing = (seconds / worker.steps for seconds in (worker.execute_seconds, worker.tracing_seconds))
    idle = (step - device) * worker.steps
    if device > SHARE.value * step or idle < TOTAL.value:
        return
    rows = batch_rows(worker)
    text = (
        f"The device worked for {device * 1000:.0f} ms of a step of {step * 1000:.0f} ms ({device / step:.0%}); "
        f"tracing took {tracing * 1000:.0f} ms"
    )
    yield Seen(Severity.WARNING, text + (f", with {rows} rows a batch" if rows else ""), None, None, idle)


RULE = Rule(
    name="tracing-bound",
    why="torch_xla runs the script's Python anew at each step, to find the compiled program. That takes as long for "
    "few rows as for many, and the device waits meanwhile.",
    instead="Raise batch_size (and the learning rate) until a step gets longer. Or trace models once where that "
    "pays, with SAGELET_XLA_TRACING=tiered in the job's Environment, or use Inductor with SAGELET_COMPILER=inductor, "
    "or train natively.",
    section=Section.BEST_PRACTICES,
    check=check,
    thresholds=(ENOUGH_STEPS, SHARE, TOTAL),
)
