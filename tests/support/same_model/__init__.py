"""Trains one set of models natively and compiled through the runtime package, and measures how far they agree."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from support import taking_turns
from support.training_host import TrainingHost

SCRIPTS = Path(__file__).parent / "scripts"
COMPILER = {"sagemaker_training_compiler_enabled": "true", "sagemaker_training_compiler_debug_mode": "false"}


NO_VARIABLES: Mapping[str, str] = {}


@dataclass(frozen=True)
class Tolerance:
    """The largest differences of two trainings that count as agreement. Both are relative."""

    loss: float
    weights: float


#: Measured by `make bench-models`, times ten. The reasons are in docs/explanation/same-model.md.
SMOOTH = Tolerance(loss=1e-5, weights=1e-4)
CHAOTIC = Tolerance(loss=1e-2, weights=1e-1)
TOLERANCES = {"gpt2": SMOOTH, "bert": SMOOTH, "mlp": CHAOTIC, "conv": CHAOTIC, "lstm": SMOOTH}


@dataclass(frozen=True)
class Trained:
    """The results of one training."""

    #: `cpu` or `xla`.
    device: str
    #: The loss of each step.
    losses: list[float]
    #: Seconds, and CPU seconds of all threads, of each chunk of steps. The first chunk is the first step.
    chunks: list[tuple[float, float]]
    #: Seconds in which XLA compiled.
    compiling_s: float
    weights: dict[str, Any]

    @classmethod
    def read(cls, directory: Path, name: str) -> "Trained":
        results = json.loads((directory / f"{name}.json").read_text())
        with numpy.load(directory / f"{name}.npz") as file:
            return cls(results["device"], results["losses"], results["chunks"], results["compiling_s"], dict(file))


@dataclass(frozen=True)
class Difference:
    #: Of the losses of one step, over that of the first training; the largest.
    loss: float
    #: The L2 norm of the difference of all weights, divided by that of the first training's weights.
    weights: float

    def within(self, tolerance: Tolerance) -> bool:
        return self.loss <= tolerance.loss and self.weights <= tolerance.weights


def difference(one: Trained, other: Trained) -> Difference:
    assert one.weights.keys() == other.weights.keys()
    assert len(one.losses) == len(other.losses)
    loss = max(abs(a - b) / abs(a) for a, b in zip(one.losses, other.losses, strict=True))
    return Difference(loss, _distance(one.weights, other.weights) / _distance(one.weights, {}))


def _distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    squares = 0.0
    for name, value in one.items():
        if numpy.issubdtype(value.dtype, numpy.floating):
            squares += float(numpy.square(value.astype("f8") - other.get(name, numpy.float64(0))).sum())
    return float(squares**0.5)


def start(
    base: Path,
    *,
    compiled: bool,
    threads: int,
    environment: Mapping[str, str] = NO_VARIABLES,
    forked: bool = False,
    **options: object,
) -> tuple[TrainingHost, subprocess.Popen[str]]:
    """Starts `scripts/train.py` with these options, on a host of its own.

    `environment`: of the job. `forked`: as a TrainingHost's, where no time is measured.
    """
    base.mkdir(parents=True)
    # Both on CPUs, whatever the machine has.
    pools = {"OMP_NUM_THREADS": str(threads), "PJRT_NPROC": str(threads), "CUDA_VISIBLE_DEVICES": ""}
    # Waiting threads must not spin, because the other training of a pair, or of another test, needs the CPU.
    host = TrainingHost(base, {**pools, "OMP_WAIT_POLICY": "passive", **environment}, forked=forked)
    for file in SCRIPTS.glob("*.py"):
        host.script(file.read_text(), file.name)
    hyperparameters = {name: str(value) for name, value in options.items()}
    return host, host.start({**(COMPILER if compiled else {}), **hyperparameters})


def ended(host: TrainingHost, process: "subprocess.Popen[str]", names: list[str]) -> dict[str, Trained]:
    """Waits for the training's success. Returns its results by model."""
    code = process.wait(timeout=1800)
    assert code == 0, host.log
    return {name: Trained.read(host.model, name) for name in names}


def in_turns(
    model: str,
    kinds: Mapping[str, Mapping[str, str] | None],
    base: Path,
    *,
    threads: int,
    forked: bool = False,
    **options: object,
) -> dict[str, Trained]:
    """Trains a model once for each kind, all in turns of `chunk` steps, so that a load of the machine affects all.

    A kind is the Environment of a compiled job, or None for a native job.
    """

    def starting(number: int, variables: Mapping[str, str] | None) -> taking_turns.Start:
        return lambda turns: start(
            base / str(number), compiled=variables is not None, threads=threads, turns=turns, models=model,
            environment=variables or {}, forked=forked, **options,
        )  # fmt: skip

    starts = {kind: starting(number, variables) for number, (kind, variables) in enumerate(kinds.items())}
    hosts = taking_turns.in_turns(starts)
    return {kind: Trained.read(host.model, model) for kind, host in hosts.items()}
