"""Operations without a lowering in XLA, which run on the CPU."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, all_steps
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules import inductor
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources

REPEATED = Threshold(
    0.1, "of the steps", "an operation that runs now and then, to prepare the data or in an evaluation, costs little"
)
SOME = Threshold(2, "steps", "once is preparation")
#: The explicit evaluations count `.item()`.
SCALAR_READ = "aten::_local_scalar_dense"


def check(case: Case) -> Iterator[Seen]:
    if case.by_inductor:
        yield from inductor.fell_back(case)
        return
    worker = case.lead
    if worker is None:
        return
    steps = all_steps(worker)
    for operation, count in sorted(worker.fallbacks.items(), key=lambda pair: (-pair[1], pair[0])):
        in_steps = max(0, count - worker.fallback_repeats.get(operation, 0))
        if operation != SCALAR_READ and in_steps >= max(SOME.value, REPEATED.value * steps):
            place = _place(case.sources, operation)
            within = f"{steps} steps" if in_steps == count else f"{in_steps} of {steps} steps"
            text = f"{operation} has no XLA lowering and ran on the CPU {count} times in {within}"
            yield Seen(Severity.WARNING, text + case.sources.quoted(place), place, count)


def _place(sources: Sources, operation: str) -> SourceLine | None:
    """Returns the only line that calls a function with the operation's name: `aten::_unique2` is torch.unique."""
    base = operation.partition("::")[2].partition(".")[0].strip("_")
    names = {base, base.rstrip("0123456789_"), base.removeprefix("special_"), base.removeprefix("linalg_")}
    places = [SourceLine(script.path, call.lineno) for script, call in sources.calls(*names - {""})]
    return places[0] if len(places) == 1 else None


RULE = Rule(
    name="cpu-fallback",
    why="The graph is cut before such an operation, its inputs are copied to the host, and its results back.",
    instead="Take the operation out of the step: compute it while the data are prepared, or use operations that XLA "
    "has (PyTorch/XLA's list of supported operations).",
    section=Section.PERFORMANCE,
    check=check,
    thresholds=(REPEATED, SOME),
)
