"""Tensors that are printed or logged in (nearly) every step."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, all_steps
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.evaluations import Use, place_of, use_of
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS, OFTEN
from sagelet_engine.doctor.rules.trainer_arguments import written
from sagelet_engine.telemetry.compiler.worker import WorkerReport

IN_TRAINER = "TrainingArguments(logging_steps=50), or more."


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    steps = all_steps(worker) if worker else 0
    if worker is None or steps < ENOUGH_STEPS.value:
        return
    for evaluation in worker.evaluations:
        if evaluation.in_steps > OFTEN.value * steps and use_of(evaluation, case.sources) is Use.LOGGED:
            place = place_of(evaluation, case.sources)
            text = f"A tensor was logged {evaluation.count} times in {steps} steps{case.sources.quoted(place)}"
            yield Seen(Severity.WARNING, text, place, evaluation.count, evaluation.seconds or None)
    yield from _trainer(case, worker, steps)


def _trainer(case: Case, worker: WorkerReport, steps: int) -> Iterator[Seen]:
    """Checks logging_steps of the Hugging Face Trainer, which reads the loss each time."""
    found = written(case, "logging_steps")
    reads = max((one.in_steps for one in worker.evaluations if one.via.startswith("transformers/")), default=0)
    if found is None or reads <= OFTEN.value * steps or written(case, "logging_strategy", ("no", "epoch")):
        return
    every, place = found
    if isinstance(every, int) and 0 < every < 1 / OFTEN.value:
        times = steps // every
        text = f"logging_steps={every}: the Trainer read the loss from the device about {times} times in {steps} steps"
        yield Seen(Severity.WARNING, text, place, times, instead=IN_TRAINER)


RULE = Rule(
    name="frequent-logging",
    why="Each logged tensor is an explicit evaluation: the graph of the step is cut there, and the host waits for "
    "the value in place of preparing the next step.",
    instead="Log every 50 or 100 steps (if step % 50 == 0: ...), or from xm.add_step_closure.",
    section=Section.PERFORMANCE,
    check=check,
    thresholds=(ENOUGH_STEPS, OFTEN),
)
