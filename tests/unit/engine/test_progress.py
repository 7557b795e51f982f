"""What a job's workers do now, of their reports."""

from sagelet_engine.telemetry.compiler.progress import Progress, progress
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import WorkerReport


def of(*workers: WorkerReport, final: bool = False) -> Progress:
    return progress(CompilerReport.of("job", workers, final=final))


def test_nothing_is_known_before_a_worker_reports_and_after_the_end() -> None:
    assert progress(None) == of() == of(WorkerReport(steps=3), final=True) == Progress()


def test_the_first_compilation() -> None:
    seen = of(WorkerReport(compiling_since_ms=1_000, updated_ms=39_400))
    assert seen.text == "compiling, step 1, 38 s"
    assert (seen.compiling_step, seen.compiling_seconds) == (1, 38.4)


def test_of_several_workers_the_one_that_compiles_longest() -> None:
    first = WorkerReport(rank=0, steps=4, compiling_since_ms=10_000, updated_ms=12_000)
    second = WorkerReport(rank=1, steps=3, compiling_since_ms=5_000, updated_ms=12_000)
    assert of(first, second, WorkerReport(rank=2, steps=5)).text == "compiling, step 4, 7 s"


def test_between_compilations_how_far_it_is() -> None:
    assert of(WorkerReport(steps=0)).text == ""
    assert of(WorkerReport(steps=1)).text == "step 1"
    seen = of(WorkerReport(rank=0, steps=120, steady_step_seconds=0.11), WorkerReport(rank=1, steps=118))
    assert (seen.text, seen.workers, seen.steps) == ("step 118, 110 ms each", 2, 118)
