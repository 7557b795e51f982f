"""Each compiler against native training, on the same models: a step, the first step, and a whole job.

The trainings of a model take turns, some steps each, so that a load of the machine weighs on all. A ratio is of the
turns of one round. Its interval is Student's, at 95 %, of the logarithms of the rounds' ratios.
"""

import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.tables import Cell, Figure, Scale, Table, against_peer, in_turns, number
from sagelet_engine.comparison.student import quantile
from sagelet_runtime.gpu import plugin
from support import same_model
from support.same_model import TOLERANCES, Trained

HEADS = (
    ("model", "compiler", "step ms", "native / it", "of CPU time", "first step s", "next turn s"),
    ("job", "wall s", "CPU s"),
)
NATIVE = "native"
PLUGIN = {"SAGELET_XLA_CLIENT": "plugin"}
#: The compilers, and the variables of a job that chooses one.
COMPILERS: Mapping[str, Mapping[str, str]] = {
    "XLA built in": {"SAGELET_XLA_CLIENT": "builtin"},
    "XLA plugin": PLUGIN,
    "Inductor": {"SAGELET_COMPILER": "inductor"},
}
#: Chunks at the beginning that are not compared: XLA and Inductor compile in them.
WARMING = 2
#: Places in a chunk's figures.
WALL, CPU = 0, 1


@dataclass(frozen=True)
class Plan:
    models: tuple[str, ...]
    compilers: tuple[str, ...]
    #: Rounds that are compared, and steps of a turn.
    rounds: int
    chunk: int
    #: Of torch and of XLA.
    threads: int
    small: bool
    #: Jobs of each kind for the table of whole jobs.
    jobs: int

    @property
    def steps(self) -> int:
        """The first step is a chunk of its own."""
        return 1 + (self.rounds + WARMING - 1) * self.chunk


PLANS = {
    Scale.FULL: Plan(tuple(TOLERANCES), tuple(COMPILERS), 8, 3, len(os.sched_getaffinity(0)), small=False, jobs=5),
    Scale.SHORT: Plan(("mlp",), ("XLA built in",), 3, 2, 1, small=True, jobs=1),
}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    kinds = {NATIVE: None, **{name: COMPILERS[name] for name in plan.compilers if _is_here(name)}}
    found = {name: side_by_side(name, kinds, directory / name, plan) for name in plan.models}
    jobs = _whole_jobs(list(kinds), directory / "jobs", plan)
    return [_steps(found, kinds, plan), jobs]


def _is_here(compiler: str) -> bool:
    if COMPILERS[compiler] is not PLUGIN:
        return True
    try:
        plugin.find_cpu_plugin()
    except plugin.PluginUnavailable:
        return False
    return True


def side_by_side(
    model: str, kinds: Mapping[str, Mapping[str, str] | None], base: Path, plan: Plan
) -> dict[str, Trained]:
    """Trains a model once for each kind, all in turns. A kind is the job's Environment, or None for a native job."""
    wished = {"steps": plan.steps, "chunk": plan.chunk, "small": int(plan.small), "learning_rate": 1e-3}
    return same_model.in_turns(model, kinds, base, threads=plan.threads, **wished)


def ratio(native: Sequence[float], other: Sequence[float]) -> Figure:
    """Returns native over other. Above 1: the other one is faster."""
    logs = [math.log(one / two) for one, two in zip(native, other, strict=True)]
    mean = statistics.mean(logs)
    half = quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Figure(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def later(trained: Trained, clock: int = WALL) -> list[float]:
    """Returns the seconds of the chunks in which nothing is compiled."""
    return [chunk[clock] for chunk in trained.chunks[WARMING:]]


def _steps(found: Mapping[str, Mapping[str, Trained]], kinds: Mapping[str, object], plan: Plan) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model, trained in found.items():
        native = trained[NATIVE]
        for kind in kinds:
            one = trained[kind]
            rows.append(
                (
                    model,
                    kind,
                    1000 * statistics.median(later(one)) / plan.chunk,
                    "1" if kind == NATIVE else against_peer(ratio(later(native), later(one))),
                    "1" if kind == NATIVE else against_peer(ratio(later(native, CPU), later(one, CPU))),
                    one.chunks[0][WALL],
                    one.chunks[1][WALL],
                )
            )
    conditions = (
        f"{plan.rounds} rounds of {plan.chunk} steps each, AdamW in float32, {plan.threads} thread(s), without a "
        "cache. Above 1: faster than native training. Intervals are Student's at 95 %."
    )
    return Table("A step", HEADS[0], rows, conditions, {"trainings": (len(rows), len(found) * len(kinds))})


def _whole_jobs(kinds: Sequence[str], base: Path, plan: Plan) -> Table:
    """Runs whole jobs of a small GPT-2, one of each kind after the other. Those with a cache are cold and warm."""
    runs: dict[str, Callable[[], tuple[float, float]]] = {}
    for number_, kind in enumerate(kinds):
        variables = COMPILERS.get(kind)
        cached = kind in ("XLA plugin", "Inductor")
        for state in ("cold", "warm") if cached else ("",):
            place = base / f"{number_}{state}"
            runs[f"{kind}, {state}" if state else kind] = _Job(place, variables, state, plan)
    found = in_turns(plan.jobs, runs)
    rows: list[tuple[Cell, ...]] = [
        (kind, Figure.of([wall for wall, _ in times]), Figure.of([cpu for _, cpu in times]))
        for kind, times in found.items()
    ]
    conditions = (
        f"GPT-2 of 2 layers x 32, 20 steps, {plan.jobs} jobs of each kind in turn, from the start of `train` to its "
        "end; median, least and most. Cold: with an empty cache; warm: with that of an earlier job."
    )
    counts = {"jobs": (sum(map(len, found.values())), plan.jobs * len(runs))}
    return Table("A whole job", HEADS[1], rows, conditions, counts)


class _Job:
    """Runs one kind of job again and again. Returns its seconds, and the CPU seconds of all its processes."""

    def __init__(self, base: Path, variables: Mapping[str, str] | None, state: str, plan: Plan) -> None:
        self._base, self._variables, self._state, self._threads = base, variables, state, plan.threads
        self._runs = 0

    def __call__(self) -> tuple[float, float]:
        if self._state == "warm" and not self._runs:
            self._run()  # Fills the cache.
        return self._run()

    def _run(self) -> tuple[float, float]:
        self._runs += 1
        cache = self._base / ("cache" if self._state == "warm" else f"cache-{self._runs}")
        cache.mkdir(parents=True, exist_ok=True)
        given = {"SAGELET_COMPILE_CACHE": str(cache)} if self._state else {}
        used, began = os.times(), time.perf_counter()
        host = same_model.start(
            self._base / str(self._runs), compiled=self._variables is not None, threads=self._threads,
            environment={**(self._variables or {}), **given}, models="gpt2", steps=20, small=1,
        )  # fmt: skip
        same_model.ended(*host, ["gpt2"])
        now = os.times()
        cpu = now.children_user + now.children_system - used.children_user - used.children_system
        return time.perf_counter() - began, cpu


def search(model: str, flags: Sequence[str], plan: Plan) -> str:
    """Trains on XLA's CPU plugin with each of XLA's flags and without, in turns. Returns a line for each.

    For a processor that nobody has measured: `PYTHONPATH=tests:images/runtime python -m bench.sections.compiled gpt2
    --xla_cpu_prefer_vector_width=512`.
    """
    kinds: dict[str, Mapping[str, str]] = {"": PLUGIN}
    kinds |= {one: {**PLUGIN, "XLA_FLAGS": one} for one in flags}
    with tempfile.TemporaryDirectory(prefix="bench-flags-") as base:
        found = side_by_side(model, kinds, Path(base), plan)
    plain = found[""]
    lines = [f"{model}: {number(1000 * statistics.median(later(plain)) / plan.chunk)} ms a step without a flag"]
    for one in flags:
        wall, cpu = ratio(later(plain), later(found[one])), ratio(later(plain, CPU), later(found[one], CPU))
        first = number(found[one].chunks[0][WALL])
        lines.append(f"{one}: {against_peer(wall)}; of CPU time {against_peer(cpu)}; first step {first} s")
    return "\n".join(lines)


if __name__ == "__main__":
    print(search(sys.argv[1], sys.argv[2:], replace(PLANS[Scale.FULL], models=(sys.argv[1],))))
