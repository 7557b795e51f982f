"""Compiled steps that are slower than native ones."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS

SPEED = Threshold(0.8, "of a native step's speed", "above, the two are nearly as fast; the load of a machine varies")


def check(case: Case) -> Iterator[Seen]:
    worker, native = case.lead, case.native_step_seconds
    if worker is None or case.baseline is None or not native or worker.steps < ENOUGH_STEPS.value:
        return
    step = worker.steady_step_seconds
    if native >= SPEED.value * step:
        return
    where = "On this CPU, a" if worker.platform == "CPU" else "A"
    text = (
        f"{where} step compiled by {case.compiler_name} took {step * 1000:.1f} ms, natively {native * 1000:.1f} ms in "
        f"{case.baseline.job}: {native / step:.2g} of the speed"
    )
    unproven = case.one_run_of_each
    yield Seen(
        Severity.INFO if unproven else Severity.WARNING, text + unproven, None, None, (step - native) * worker.steps
    )


RULE = Rule(
    name="slower-than-native",
    why="A compiler does not make every model faster, and on CPUs XLA makes many slower: convolutions, recurrent "
    "layers, small steps. What a CPU shows says little about a GPU. Runs of equal jobs vary, too: the finding is a "
    "warning only where `sagelet compare` says by the same two runs that the compiled job is slower.",
    instead="Try the other compiler (SAGELET_COMPILER=inductor or xla in the job's Environment), or train natively. "
    "`sagelet compare NATIVE COMPILED --repeat 3` measures the two in turns.",
    section=Section.PERFORMANCE,
    check=check,
    thresholds=(ENOUGH_STEPS, SPEED),
)
