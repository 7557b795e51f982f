"""Fixed models as jobs, native and compiled. `make bench-models` and `make bench-cache` measure the rest."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.tables import Scale, Table
from sagelet_engine.instances.gpus import detect_gpus
from support.jobs import Jobs
from support.same_model import COMPILER, SOURCES
from support.server import COMPILED, NATIVE, SageletProcess

MODELS = {"gpt2": "GPT-2 shape", "mlp": "MLP", "conv": "conv net"}
HEAD = (
    "model", "job", "device", "programs", "read from the cache", "first step s", "later steps ms",
    "later steps ms, min to max", "last loss",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    models: tuple[str, ...]
    steps: int
    small: bool
    #: Jobs of one model, in order; the second compiled one finds what the first has compiled.
    jobs: tuple[str, ...]


PLANS = {
    Scale.FULL: Plan(tuple(MODELS), 41, False, ("native", "compiled, cold", "compiled, warm")),
    Scale.SHORT: Plan(("mlp",), 11, True, ("native", "compiled, cold")),
}
CHUNK = 5


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with tempfile.TemporaryDirectory(prefix="bench-compiled-") as directory:
        return [_as_jobs(plan, Path(directory, "data"))]


def _as_jobs(plan: Plan, data: Path) -> Table:
    gpus = len(detect_gpus())
    options = ("--gpus", "require") if gpus else ("--runtime", "process")
    server = SageletProcess(data, *options, "--max-jobs", "1").start()
    try:
        rows = list(_job_rows(plan, Jobs(server)))
    finally:
        server.stop()
    where = f"{gpus} GPU(s)" if gpus else "no GPU, where XLA's CPU client cannot read programs back: warm is as cold"
    return Table(
        "The same models as jobs",
        HEAD,
        tuple(rows),
        f"One job after another on an ml.p3.2xlarge: {where}. {plan.steps} steps; the first compiles, of the others "
        f"the median and the spread over turns of {CHUNK} steps by the clock.",
        counts={"jobs": len(rows), "jobs planned": len(plan.models) * len(plan.jobs)},
    )


def _job_rows(plan: Plan, jobs: Jobs) -> Iterator[tuple[str | float | int, ...]]:
    files: dict[str, str | bytes] = {file.name: file.read_text() for file in SOURCES.glob("*.py")}
    for model in plan.models:
        for kind in plan.jobs:
            compiled = kind != "native"
            wished = {"models": model, "steps": str(plan.steps), "chunk": str(CHUNK), "small": str(int(plan.small))}
            name = jobs.submit(
                files,
                image=COMPILED if compiled else NATIVE,
                hyperparameters={**wished, **(COMPILER if compiled else {})},
                max_runtime=3600,
            )
            description = jobs.ended(name, 3600)
            if description["TrainingJobStatus"] != "Completed":
                raise RuntimeError(f"{name}: {description.get('FailureReason')}")
            told = json.loads(jobs.artifact(name)[f"{model}.json"])
            # A native job has no report.
            total = jobs.server.report(name)["total"] if compiled else {}
            yield (
                MODELS[model],
                kind,
                told["device"],
                *_programs(total),
                *_steps(told["chunks"]),
                f"{told['losses'][-1]:.6f}",
            )


def _programs(total: dict[str, Any]) -> tuple[int, int]:
    """Asked of the compiler, and of these read from the cache."""
    return total.get("compiles", 0), total.get("cache", {}).get("hits", 0)


def _steps(chunks: list[tuple[float, float]]) -> tuple[float, float, str]:
    """Seconds of the first step; the median, and the spread, of later ones in milliseconds."""
    later = [1000 * seconds / CHUNK for seconds, _ in chunks[2:]]
    return chunks[0][0], median(later), f"{min(later):.1f} to {max(later):.1f}"
