"""Facts of jobs for the comparison, made by hand."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.trainer_log import TrainerLog
from sagelet_engine.instances.bill import Bill
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import BatchShape, StepSeconds, WorkerReport

PRICE = 3.6
#: A worker whose steps took equally long, on a machine that did nothing else.
IDLE: dict[str, Any] = {
    "step_seconds": StepSeconds(p5=1.0, p50=1.0, p95=1.0, count=10, steps=10, clock="device", quarters=(1.0,) * 4),
    "cpu_seconds": 100.0,
}
INSTANCES = (("ml.p3.2xlarge", 1),)


def trainer(runtime: float, samples: float = 1000, losses: Sequence[float] = (4.0, 3.0, 2.0)) -> TrainerLog:
    """Returns the log of a Trainer that took this many seconds for its samples."""
    train = tuple({"loss": loss, "epoch": number + 1.0} for number, loss in enumerate(losses))
    return TrainerLog(train, (), {"train_runtime": runtime, "train_samples_per_second": samples / runtime})


def report(compiled: bool, rows: int = 10, samples: int = 1000, workers: int = 1, **figures: Any) -> CompilerReport:
    each = WorkerReport(
        compiled=compiled,
        platform="CPU" if compiled else "",
        steps=samples // rows // workers,
        samples=samples // workers,
        batch_shapes=(BatchShape((rows, 32), samples // rows // workers),),
        **{**IDLE, **({"compiles": 3, "compile_seconds": 10.0} if compiled else {}), **figures},
    )
    return CompilerReport.of("job", [each] * workers, final=True)


def native(**changes: Any) -> JobFacts:
    """100 s of training, 120 s in all."""
    return facts(**{"name": "plain", "compiled": False, "seconds": 120, "log": trainer(100), **changes})


def compiled(**changes: Any) -> JobFacts:
    """60 s of training, 10 s of them compiling; 75 s in all."""
    return facts(**{"name": "fast", "compiled": True, "seconds": 75, "log": trainer(60), **changes})


def facts(name: str, *, compiled: bool, seconds: int | None, **changes: Any) -> JobFacts:
    usd = None if seconds is None else seconds * PRICE / 3600
    usual: dict[str, Any] = {
        "account": "123456789012",
        "region": "us-east-1",
        "status": "Completed",
        "bill": Bill(seconds or 0, INSTANCES, usd, date(2026, 8, 20)),
        "asked": compiled,
        "compiled": compiled,
        "hyperparameters": {"sagemaker_program": "train.py", "epochs": "3"},
        "code": "abc",
        "started_ms": 1000,
        "training_seconds": seconds,
        "billable_seconds": seconds,
        "report": report(compiled),
    }
    return JobFacts(name=name, **{**usual, **changes})
