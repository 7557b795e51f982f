"""A model that computes something else if it is traced once."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    if worker is not None and (difference := worker.graph.tier.difference):
        text = f"Traced once, the model computes something else: {difference}. It was traced at each step to the end"
        yield Seen(Severity.WARNING, text, None, None)


RULE = Rule(
    name="tracing-differs",
    why="Before a model is traced once, sagelet compares the outputs and gradients of one batch with those of the "
    "model as it is. A difference means that its Python does something at each step that one trace does not show.",
    instead="Leave SAGELET_XLA_TRACING out, and do not use once for this model. Look for what its forward reads from "
    "outside, such as a global variable, a file or a clock.",
    section=Section.BEST_PRACTICES,
    check=check,
)
