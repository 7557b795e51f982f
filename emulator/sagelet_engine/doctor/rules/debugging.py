"""Debug mode, SageMaker Debugger and its profiler, left on."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity


def debug_mode(case: Case) -> Iterator[Seen]:
    if case.setup.debug and case.setup.compiled and not case.by_inductor:
        yield Seen(Severity.INFO, "The compiler's debug mode is on")


def debugger(case: Case) -> Iterator[Seen]:
    names = [name for name, on in (("hook", case.setup.debugger), ("profiler", case.setup.profiler)) if on]
    if names and case.setup.compiled:
        yield Seen(Severity.INFO, f"The request turns on SageMaker Debugger's {' and '.join(names)}")


DEBUG_MODE = Rule(
    name="debug-mode",
    why="In debug mode each graph and each step's metrics are written to files, which adds time to every step.",
    instead="TrainingCompilerConfig(debug=False), once the job has been debugged.",
    section=Section.BEST_PRACTICES,
    check=debug_mode,
)
DEBUGGER = Rule(
    name="debugger",
    why="On AWS SageMaker Debugger might impact the performance of the compiler (sagelet itself runs no Debugger).",
    instead="disable_profiler=True and debugger_hook_config=False for the estimator.",
    section=Section.ENABLE,
    check=debugger,
)
