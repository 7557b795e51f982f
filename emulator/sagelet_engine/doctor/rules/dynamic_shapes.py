"""`padding='longest'` and the like: batches of ever new shapes, each of which is compiled."""

import ast
from collections.abc import Iterator, Sequence

from sagelet_engine.doctor.case import Case, seconds_per_compile
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules import inductor
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS, WARM_UP
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources, called, constant, keyword
from sagelet_engine.telemetry.compiler.worker import BatchShape

SHAPES = Threshold(3, "shapes of batches", "two are a last, smaller batch, or training and evaluation")
COMPILED = Threshold(3, "steps after the first ones that compiled", "that many compilations cost time")
#: Values of a tokenizer's `padding` that pad to the longest sample of the batch (True is short for it).
LONGEST = (True, "longest")
SAME_ROWS = "Give every batch the same number of rows: a fixed batch_size, and drop_last=True for the DataLoader."


def check(case: Case) -> Iterator[Seen]:
    if case.by_inductor:
        yield from inductor.recompiled(case)
        return
    worker = case.lead
    if worker is None or worker.steps < ENOUGH_STEPS.value:
        return
    late = worker.compiling_step_count - sum(step < WARM_UP.value for step in worker.compiling_steps)
    shapes = worker.batch_shapes
    if late < COMPILED.value or len(shapes) < SHAPES.value:
        return
    cost = late * seconds_per_compile(worker)
    text = f"The batches had {len(shapes)} shapes ({_listed(shapes)}); after step {WARM_UP.value:g} another {late} "
    text += f"steps compiled a program anew, which took about {cost:.1f} s"
    if len({one.shape[1:] for one in shapes}) == 1:
        yield Seen(Severity.WARNING, text, None, late, cost, SAME_ROWS)
        return
    place = _place(case.sources)
    if place is not None:
        text += f"; each is padded to its own longest row{case.sources.quoted(place)}"
    yield Seen(Severity.WARNING, text, place, late, cost)


def _place(sources: Sources) -> SourceLine | None:
    """Returns the first call that pads to the longest sample. A collator does so by default."""
    for script, call in sources.calls("DataCollatorWithPadding"):
        padding = keyword(call, "padding")
        if (padding is None and len(call.args) < 2) or constant(padding) in LONGEST:
            return SourceLine(script.path, call.lineno)
    for script in sources:
        for call in sorted(script.calls(), key=lambda call: call.lineno):
            if constant(keyword(call, "padding")) in LONGEST and not _layer(call):
                return SourceLine(script.path, call.lineno)
    for script, call in sources.calls("pad_sequence"):
        return SourceLine(script.path, call.lineno)
    return None


def _layer(call: ast.Call) -> bool:
    """True for a layer: convolutions and pools have a `padding`, too, and 1 equals True."""
    return called(call).lower().startswith(("conv", "maxpool", "avgpool", "max_pool", "avg_pool", "unfold", "fold"))


def _listed(shapes: Sequence[BatchShape]) -> str:
    texts = [f"{list(one.shape)} x{one.count}" for one in shapes[:3]]
    return ", ".join([*texts, "..."] if len(shapes) > 3 else texts)


RULE = Rule(
    name="dynamic-shapes",
    why="XLA compiles a program for each shape of its inputs, so a batch of a new shape stops the training until "
    "its program is compiled.",
    instead="Pad all batches to one length: tokenizer(..., padding='max_length', max_length=N, truncation=True).",
    section=Section.BEST_PRACTICES,
    check=check,
    thresholds=(ENOUGH_STEPS, WARM_UP, SHAPES, COMPILED, inductor.RECOMPILED),
)
