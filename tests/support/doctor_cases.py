"""Cases for the doctor's rules, made by hand."""

import textwrap
from typing import Any

from sagelet_engine.doctor.case import Baseline, Case, Progress, Setup
from sagelet_engine.doctor.diagnosis import diagnose
from sagelet_engine.doctor.finding import Finding
from sagelet_engine.doctor.sources import Sources
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import (
    BatchShape,
    CallSite,
    Devices,
    Optimizer,
    StepSeconds,
    WorkerReport,
)

GPU = (("ml.p3.2xlarge", 1),)


def worker(**figures: Any) -> WorkerReport:
    """Returns the report of a training without findings: 1,000 steps of 10 ms, 2 of which compiled."""
    usual: dict[str, Any] = {
        "platform": "CPU",
        "steps": 1000,
        "optimizer_steps": 1000,
        "markers": 1000,
        "compiles": 2,
        "compile_seconds": 1.0,
        "compiling_steps": (0, 1),
        "compiling_step_count": 2,
        "executions": 1000,
        "steady_step_seconds": 0.01,
        "step_seconds": StepSeconds(0.008, 0.01, 0.012, 998, 998),
        "batch_shapes": (BatchShape((16, 32), 1000),),
        "optimizers": (Optimizer("SGD", (0.1,)),),
        "devices": Devices(xla_params=4),
    }
    return WorkerReport(**{**usual, **figures})


def case(
    *workers: WorkerReport,
    script: str = "",
    setup: Setup | None = None,
    progress: Progress | None = None,
    native: WorkerReport | None = None,
) -> Case:
    """Makes a case. `native`: the report of a native job with the same script."""
    return Case(
        CompilerReport.of("job", workers),
        Sources({"train.py": textwrap.dedent(script).lstrip("\n")}),
        setup or Setup(GPU),
        progress or Progress(),
        None if native is None else Baseline("native", (native,)),
    )


def native_worker(**figures: Any) -> WorkerReport:
    return worker(**{"compiled": False, "platform": "", "compiles": 0, "compile_seconds": 0.0, **figures})


def found(looked_at: Case) -> dict[str, Finding]:
    """Returns the last finding of each rule."""
    return {finding.rule.name: finding for finding in diagnose(looked_at)}


def read(call: str, line: int, count: int, via: str = "") -> CallSite:
    """Makes a place where a tensor was read."""
    return CallSite(call, "train.py", line, "main", via, count, 0.5)
