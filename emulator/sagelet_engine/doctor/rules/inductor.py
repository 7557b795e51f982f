"""What Dynamo's counters show of a job that Inductor compiles, in the place of rules that are about XLA."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, all_steps, seconds_per_compile
from sagelet_engine.doctor.finding import Seen, Severity, Threshold
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS

RECOMPILED = Threshold(3, "functions that Inductor compiled anew", "a second shape makes the next program general")


def recompiled(case: Case) -> Iterator[Seen]:
    """Shapes and other values that Dynamo had taken for constants."""
    worker = case.lead
    if worker is None or all_steps(worker) < ENOUGH_STEPS.value or worker.graph.recompiles < RECOMPILED.value:
        return
    cost = worker.graph.recompiles * seconds_per_compile(worker)
    text = f"Dynamo traced {worker.graph.recompiles} functions anew, about {cost:.1f} s of compiling"
    yield Seen(
        Severity.WARNING,
        text + _first(worker.graph.recompile_reasons),
        count=worker.graph.recompiles,
        cost_seconds=cost,
        why="Dynamo compiles a function anew when something differs that it had taken for a constant. After 8 times it "
        "runs the function natively.",
        instead="Give all batches one shape, or mark what changes (torch._dynamo.mark_dynamic). Keep counters that "
        "change in every step out of forward().",
    )


def broke(case: Case) -> Iterator[Seen]:
    """Places where Dynamo ended a graph."""
    worker = case.lead
    if worker is None or not worker.graph.breaks:
        return
    places = "one place" if worker.graph.breaks == 1 else f"{worker.graph.breaks} places"
    yield Seen(
        Severity.INFO,
        f"Dynamo ended the graph at {places}{_first(worker.graph.break_reasons)}",
        count=worker.graph.breaks,
        why="What stands there runs in Python, in every step, and nothing is fused over it.",
        instead="Take `.item()`, `print` and calls of other libraries out of forward(), or read values after the step. "
        "TORCH_LOGS=graph_breaks in the job's Environment prints each place.",
    )


def fell_back(case: Case) -> Iterator[Seen]:
    """Parts of the model that Dynamo or Inductor could not compile."""
    worker = case.lead
    for what, count in sorted(worker.fallbacks.items()) if worker else ():
        yield Seen(
            Severity.WARNING,
            f"Inductor could not compile a part of the model, which ran natively: {what}",
            count=count,
            why="What Inductor cannot compile runs as in a native job: the result is the same, and not faster.",
            instead="Look at the error in the job's log. @torch.compiler.disable on the function keeps it out of what "
            "is compiled; SAGELET_COMPILER=xla in the job's Environment takes XLA.",
        )


def _first(reasons: dict[str, int]) -> str:
    """Returns the most frequent reason, for the end of a sentence."""
    most = max(reasons, key=lambda reason: reasons[reason], default="")
    return f": {most}" if most else ""
