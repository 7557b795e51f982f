"""A DataLoader without drop_last: the last batch of an epoch is smaller, so its step is compiled on its own."""

import ast
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, seconds_per_compile
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS, WARM_UP
from sagelet_engine.doctor.rules.trainer_arguments import CLASSES
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources, constant, keyword, opaque
from sagelet_engine.telemetry.compiler.worker import BatchShape


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    if worker is None or case.by_inductor or worker.steps < ENOUGH_STEPS.value or len(worker.batch_shapes) != 2:
        return
    late = [step for step in worker.compiling_steps if step >= WARM_UP.value]
    often, last = worker.batch_shapes
    place = _place(case.sources)
    if place is None or not late or not _smaller(often, last):
        return
    text = f"Besides {often.count} batches of shape {list(often.shape)} there {_were(last.count)} of {list(last.shape)}"
    text += f", and step {late[0]} compiled a program anew{case.sources.quoted(place)}"
    yield Seen(Severity.INFO, text, place, last.count, seconds_per_compile(worker) * len(late))


def _were(count: int) -> str:
    return "was 1" if count == 1 else f"were {count}"


def _smaller(often: BatchShape, last: BatchShape) -> bool:
    """True if the second batch has fewer rows, and comes as seldom as the end of an epoch."""
    if not often.shape or not last.shape:
        return False
    return often.shape[1:] == last.shape[1:] and often.shape[0] > last.shape[0] and last.count * 2 <= often.count


def _place(sources: Sources) -> SourceLine | None:
    """Returns the only place that makes batches to train on, if it keeps the last one. None if that is not certain.

    With batches of an evaluation nobody could say where the smaller one comes from.
    """
    for script, call in sources.calls(*CLASSES):
        if opaque(call) or _evaluates(call) or constant(keyword(call, "dataloader_drop_last")) is True:
            return None
        return SourceLine(script.path, call.lineno)
    loaders = list(sources.calls("DataLoader"))
    if len(loaders) != 1:
        return None
    ((script, call),) = loaders
    last = keyword(call, "drop_last")
    if opaque(call) or (last is not None and constant(last) is not False):
        return None
    return SourceLine(script.path, call.lineno)


def _evaluates(call: ast.Call) -> bool:
    names = ("eval_strategy", "evaluation_strategy", "do_eval", "eval_steps")
    return any(constant(keyword(call, name)) not in (None, "no", False) for name in names)


RULE = Rule(
    name="last-batch",
    why="The last batch of an epoch has fewer rows than the others. Its step is another program, which is compiled "
    "when the first epoch is nearly over.",
    instead="DataLoader(..., drop_last=True); for the Trainer TrainingArguments(dataloader_drop_last=True).",
    section=Section.BEST_PRACTICES,
    check=check,
    thresholds=(ENOUGH_STEPS, WARM_UP),
)
