"""Checkpoints in (nearly) every step."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, all_steps
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.evaluations import place_of
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS, OFTEN
from sagelet_engine.doctor.rules.trainer_arguments import written

IN_TRAINER = "TrainingArguments(save_steps=500), or save_strategy='epoch'."


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    steps = all_steps(worker) if worker else 0
    if worker is None or steps < ENOUGH_STEPS.value:
        return
    for save in worker.saves:
        if save.count > OFTEN.value * steps:
            place = place_of(save, case.sources)
            text = f"{save.call} wrote tensors of the device {save.count} times in {steps} steps"
            text += case.sources.quoted(place)
            yield Seen(Severity.WARNING, text, place, save.count, save.seconds or None)
    found = written(case, "save_steps")
    if found and isinstance(found[0], int) and 0 < found[0] < 1 / OFTEN.value:
        if written(case, "save_strategy", ("no", "epoch")):
            return
        text = f"save_steps={found[0]}: the Trainer wrote a checkpoint about {steps // found[0]} times in {steps} steps"
        yield Seen(Severity.WARNING, text, found[1], steps // found[0], instead=IN_TRAINER)


RULE = Rule(
    name="frequent-checkpoints",
    why="A checkpoint copies all weights from the device to the host and writes them, and the training waits for it.",
    instead="Save every so many hundred steps or once an epoch; for the Trainer TrainingArguments(save_steps=500).",
    section=Section.PERFORMANCE,
    check=check,
    thresholds=(ENOUGH_STEPS, OFTEN),
)
