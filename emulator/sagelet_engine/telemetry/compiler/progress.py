"""What a job's workers do now, from their reports: they compile, or they have come so far."""

from dataclasses import dataclass

from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.text import duration


@dataclass(frozen=True)
class Progress:
    #: Number of workers that have reported.
    workers: int = 0
    #: Number of steps that the slowest worker has ended.
    steps: int = 0
    #: Time of a step that compiled nothing, or 0 if not known.
    steady_step_seconds: float = 0.0
    #: The step, from 1, that a worker compiles now, or 0 if none does. Of several, the one that has compiled longest.
    compiling_step: int = 0
    #: For how many seconds it has compiled, by the worker's clock at its last report.
    compiling_seconds: float = 0.0
    #: The progress as one line of text, or empty if nothing is known.
    text: str = ""


def progress(report: CompilerReport | None) -> Progress:
    """Returns the progress. `report` is None if no worker has reported. In a final report nothing goes on."""
    if report is None or report.final or not report.workers:
        return Progress()
    steps = min(worker.steps for worker in report.workers)
    steady = report.total.steady_step_seconds
    seconds, step = max(
        ((one.updated_ms - one.compiling_since_ms) / 1000, one.steps + 1) if one.compiling_since_ms else (-1.0, 0)
        for one in report.workers
    )
    if step:
        seconds = max(0.0, seconds)
        text = f"compiling, step {step}, {seconds:.0f} s"
    else:
        text = f"step {steps}, {duration(steady)} each" if steps and steady else f"step {steps}" if steps else ""
        seconds = 0.0
    return Progress(len(report.workers), steps, steady, step, seconds, text)
