"""Runs the scripts of examples/best_practices as jobs. Records their reports and what the doctor says of them.

`make doctor-scripts` runs all of them on torch_xla and writes the records into tests/data/doctor.
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sagelet_engine.doctor.case import Baseline, Case, Progress, Setup
from sagelet_engine.doctor.diagnosis import diagnose
from sagelet_engine.doctor.rules import stall
from sagelet_engine.doctor.sources import Sources
from sagelet_engine.telemetry.compiler.reading import workers_of
from sagelet_engine.telemetry.compiler.report import CompilerReport, KeptFinding
from support import forked_python
from support.training_host import TrainingHost, poll

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "best_practices"
RECORDS = ROOT / "tests" / "data" / "doctor"
COMPILED = {"sagemaker_training_compiler_enabled": "true"}
SEVERAL = {"sagemaker_pytorch_xla_multi_worker_enabled": "true"}
#: Lines recorded of a failed job, from its first traceback on.
MOST_LINES = 200
#: Lines recorded of a job that failed without a traceback.
LAST_LINES = 40


@dataclass(frozen=True)
class Run:
    """One script as one job."""

    name: str
    #: The rule that the doctor must find, or None if it must find nothing.
    rule: str | None = None
    #: The example's name, if it differs from the run's.
    script: str = ""
    hyperparameters: dict[str, str] = field(default_factory=dict)
    compiled: bool = True
    fails: bool = False
    #: The native job's run, for comparison.
    native: str = ""
    workers: int = 1
    #: Optimizer steps after which the script hangs, or 0 if it ends.
    stalls_at: int = 0

    @property
    def file(self) -> str:
        return f"{self.script or self.name}.py"

    @property
    def record(self) -> Path:
        return RECORDS / f"{self.name}.json"


#: Scripts that fail, besides those that end well by themselves.
FAILING = (
    "device_mixing_wrong", "cuda_device_wrong", "out_of_memory_wrong", "unreadable_checkpoint_wrong",
    "compiler_fault_wrong", "xla_flags_wrong",
)  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"fails": True} for name in FAILING},
    "stall_wrong": {"stalls_at": 600},
    "gradients_wrong": {"workers": 2},
    "gradients_right": {"workers": 2},
}


def _pairs() -> Iterator[Run]:
    """Yields the scripts NAME_wrong.py and NAME_right.py. The first line of the wrong one names its rule."""
    for wrong in sorted(EXAMPLES.glob("*_wrong.py")):
        first = wrong.read_text(encoding="utf-8").splitlines()[0]
        rule = first.rpartition("(")[2].partition(")")[0]
        right = wrong.stem.replace("_wrong", "_right")
        yield Run(wrong.stem, rule, **OPTIONS.get(wrong.stem, {}))
        yield Run(right, **OPTIONS.get(right, {}))


def _batch(name: str, rows: int, rate: float, rule: str | None = None) -> Run:
    parameters = {"batch_size": str(rows), "learning_rate": str(rate)}
    return Run(name, rule, "batch_size", parameters, native="batch_size_native")


NATIVE = replace(_batch("batch_size_native", 16, 0.1), compiled=False, native="")
RUNS = [
    *_pairs(),
    Run("trainer_right_workers", script="trainer_right", workers=2),
    NATIVE,
    _batch("batch_size_same", 16, 0.1, "batch-size"),
    _batch("batch_size_larger", 64, 0.1, "learning-rate"),
    _batch("batch_size_scaled", 64, 0.4),
]


def run(one: Run, base: Path) -> dict[str, Any]:
    """Runs the script as `train` does in a container. Returns its record."""
    host = TrainingHost(base, {"SAGELET_INSTANCE_GPUS": json.dumps({"ml.p3.2xlarge": one.workers})}, forked=True)
    host.script((EXAMPLES / one.file).read_text(), one.file)
    parameters = {**one.hyperparameters, **(COMPILED if one.compiled else {}), **(SEVERAL if one.workers > 1 else {})}
    ended = None
    if one.stalls_at:
        _stalled(one, host, parameters)
    else:
        ended = host.run(parameters, one.file)
    report = CompilerReport.of(one.name, workers_of(base, "algo-1"), final=ended is not None)
    record = {
        "exit_code": ended.code if ended else None,
        "report": {name: value for name, value in report.to_json().items() if name != "total"},
        "last_lines": [_portable(line, base) for line in _failure(ended.log)] if ended and ended.code else [],
    }
    # The form in which it is read back: JSON has no tuples.
    read_back: dict[str, Any] = json.loads(json.dumps(record))
    return read_back


def _stalled(one: Run, host: TrainingHost, parameters: dict[str, str]) -> None:
    """Runs a script until it hangs, and ends it."""
    process = host.start(parameters, one.file)

    def steps() -> int:
        assert process.poll() is None, host.log
        return min((worker.optimizer_steps for worker in workers_of(host.base, "algo-1")), default=0)

    try:
        poll(lambda: steps() == one.stalls_at, f"{one.stalls_at} steps of {one.file}")
    finally:
        process.terminate()
        process.wait(timeout=60)


def _failure(log: str) -> list[str]:
    """Returns the log from the first traceback on, or the end of a log without one."""
    lines = log.splitlines()
    first = next((number for number, line in enumerate(lines) if "Traceback" in line), None)
    return lines[-LAST_LINES:] if first is None else lines[first : first + MOST_LINES]


def _portable(line: str, base: Path) -> str:
    """Removes this machine's directories from a line."""
    there = {str(base): "/opt/ml", str(ROOT): "/opt/sagelet", sys.prefix: "/usr", sys.base_prefix: "/usr"}
    for directory, other in there.items():
        line = line.replace(directory, other)
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/{forked_python.PREFIX}\w+", "/usr", line)


def case(one: Run, record: dict[str, Any], native: dict[str, Any] | None = None) -> Case:
    status = "Failed" if record["exit_code"] else "Completed"
    progress = Progress(status, exit_code=record["exit_code"], last_lines=record["last_lines"])
    return Case(
        CompilerReport.from_json(record["report"]),
        Sources({one.file: (EXAMPLES / one.file).read_text()}),
        Setup((("ml.p3.2xlarge", 1),), one.hyperparameters, one.compiled),
        Progress("InProgress", silent_seconds=stall.SILENT.value) if one.stalls_at else progress,
        Baseline(one.native, CompilerReport.from_json(native["report"]).workers) if native else None,
    )


def findings(one: Run, record: dict[str, Any]) -> list[KeptFinding]:
    native = next((load(other) for other in RUNS if other.name == one.native), None)
    return [finding.to_json() for finding in diagnose(case(one, record, native))]


def load(one: Run) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(one.record.read_text(encoding="utf-8"))
    return record


def save(one: Run, record: dict[str, Any]) -> None:
    RECORDS.mkdir(parents=True, exist_ok=True)
    one.record.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
