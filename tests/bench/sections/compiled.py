"""Fixed models as jobs, native and compiled, on GPUs where they are. The section `models` compares them in turns."""

import json
import tempfile
from pathlib import Path
from typing import Any

from bench.tables import Cell, Figure, Scale, Table
from sagelet_engine.instances.gpus import detect_gpus
from support.jobs import Jobs
from support.same_model import COMPILER, SOURCES
from support.server import COMPILED, NATIVE, SageletProcess

HEADS = (("model, job", "device", "programs", "read from the cache", "first step s", "later steps ms", "last loss"),)
MODELS = {"gpt2": "GPT-2 shape", "mlp": "MLP", "conv": "conv net"}
#: Steps that are timed together.
CHUNK = 5


def run(scale: Scale) -> list[Table]:
    short, gpus = scale is Scale.SHORT, len(detect_gpus())
    options = ("--gpus", "require") if gpus else ("--runtime", "process")
    # XLA's CPU client cannot read programs back: there a second compiled job would be as cold as the first.
    kinds = ("native", "compiled, cold", "compiled, warm") if gpus else ("native", "compiled")
    models, steps = (["mlp"], 11) if short else (list(MODELS), 41)
    with (
        tempfile.TemporaryDirectory(prefix="bench-compiled-") as directory,
        SageletProcess(Path(directory, "data"), *options, "--max-jobs", "1") as server,
    ):
        wished = {"steps": str(steps), "chunk": str(CHUNK), "small": str(int(short))}
        rows = [_row(Jobs(server), model, kind, wished) for model in models for kind in kinds]
    return [
        Table(
            "The same models as jobs",
            HEADS[0],
            rows,
            f"One job after another on an ml.p3.2xlarge: {f'{gpus} GPU(s)' if gpus else 'no GPU'}. {steps} steps; the "
            f"first compiles; of the others the median, and the interval of turns of {CHUNK} steps.",
            {"jobs": len(rows), "jobs planned": len(models) * len(kinds)},
        )
    ]


def _row(jobs: Jobs, model: str, kind: str, wished: dict[str, str]) -> tuple[Cell, ...]:
    files: dict[str, str | bytes] = {file.name: file.read_text() for file in SOURCES.glob("*.py")}
    native = kind == "native"
    parameters = {"models": model, **wished, **({} if native else COMPILER)}
    image = NATIVE if native else COMPILED
    name = jobs.submit(files, image=image, hyperparameters=parameters, max_runtime=3600)
    description = jobs.ended(name, 3600)
    if description["TrainingJobStatus"] != "Completed":
        raise RuntimeError(f"{name}: {description.get('FailureReason')}")
    told = json.loads(jobs.artifact(name)[f"{model}.json"])
    # A native job has no report.
    total: dict[str, Any] = {} if native else jobs.server.report(name)["total"]
    programs = (total.get("compiles", 0), total.get("cache", {}).get("hits", 0))
    first, _, *later = (seconds for seconds, _ in told["chunks"])
    steps = Figure.of([1000 * seconds / CHUNK for seconds in later])
    return f"{MODELS[model]}, {kind}", told["device"], *programs, first, steps, f"{told['losses'][-1]:.6f}"
