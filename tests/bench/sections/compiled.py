"""Each compiler against native training, on the same models: a step, the first step, and a whole job.

The trainings of a model take turns, some steps each, so that a load of the machine weighs on all. A ratio is of the
turns of one round. Its interval is Student's, at 95 %, of the logarithms of the rounds' ratios.
"""

import math
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from bench import machine
from bench.tables import Bar, Cell, Figure, Scale, Table, against_peer, in_turns, number
from sagelet_engine.comparison.student import quantile
from sagelet_engine.telemetry.compiler.reading import workers_of
from sagelet_runtime.gpu import plugin
from support import same_model
from support.same_model import TOLERANCES, Trained
from support.training_host import TrainingHost

SPEED = "speed over native"
HEADS = (
    ("model", "compiler", "step ms", SPEED, "speed by CPU time", "first step s", "compiling s", "promised"),
    ("job", "wall s", "CPU s", "programs compiled", "first step s", "later step ms", "promised"),
)
NATIVE = "native"
BUILT_IN, INDUCTOR = "XLA built in", "Inductor"
PLUGIN = {"SAGELET_XLA_CLIENT": "plugin"}
#: The compilers, and the variables of a job that chooses one.
COMPILERS: Mapping[str, Mapping[str, str]] = {
    BUILT_IN: {"SAGELET_XLA_CLIENT": "builtin"},
    "XLA plugin": PLUGIN,
    "XLA plugin, traced once": {**PLUGIN, "SAGELET_XLA_TRACING": "dynamo"},
    INDUCTOR: {"SAGELET_COMPILER": "inductor"},
}
XLA = tuple(name for name in COMPILERS if name != INDUCTOR)
#: How fast a compiled step shall be, over native: transformers with the best compiler, the others with Inductor.
TRANSFORMERS = ("gpt2", "bert")
AT_LEAST = {True: 1.3 if "AMD" in machine.processor() else 1.0, False: 1.1}
#: Compiling by the plugin over compiling by the built-in client, and a warm job over a native one.
COMPILE_AT_MOST, WARM_AT_MOST = 1 / 3, 1.1
#: Chunks at the beginning that are not compared: XLA and Inductor compile in them.
WARMING = 2
#: Places in a chunk's figures.
WALL, CPU = 0, 1


@dataclass(frozen=True)
class Plan:
    models: tuple[str, ...]
    compilers: tuple[str, ...]
    #: Rounds that are compared.
    rounds: int
    #: Steps of a turn, by model, so that a turn takes about a second.
    chunks: Mapping[str, int]
    #: Of torch and of XLA.
    threads: int
    #: Small models. Their scripts are forks of a process that has imported torch, because no figure is kept.
    small: bool
    #: Jobs of each kind for the table of whole jobs.
    jobs: int

    def steps(self, model: str) -> int:
        """Returns the steps of a training. The first step is a chunk of its own."""
        return 1 + (self.rounds + WARMING - 1) * self.chunks[model]


CHUNKS = {"gpt2": 4, "bert": 4, "mlp": 60, "conv": 30, "lstm": 40}
PLANS = {
    Scale.FULL: Plan(tuple(TOLERANCES), tuple(COMPILERS), 8, CHUNKS, len(os.sched_getaffinity(0)), small=False, jobs=3),
    Scale.SHORT: Plan(("mlp",), (BUILT_IN,), 3, dict.fromkeys(CHUNKS, 2), 1, small=True, jobs=1),
}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    kinds = {NATIVE: None, **{name: COMPILERS[name] for name in plan.compilers if _is_here(name)}}
    found = {name: side_by_side(name, kinds, directory / name, plan) for name in plan.models}
    jobs = _whole_jobs(list(kinds), directory / "jobs", plan)
    return [_steps(found, kinds, plan), jobs]


def _is_here(compiler: str) -> bool:
    if not PLUGIN.items() <= COMPILERS[compiler].items():
        return True
    try:
        plugin.find_cpu_plugin(version("torch_xla"))
    except plugin.PluginUnavailable:
        return False
    return True


def side_by_side(
    model: str, kinds: Mapping[str, Mapping[str, str] | None], base: Path, plan: Plan
) -> dict[str, Trained]:
    """Trains a model once for each kind, all in turns. A kind is the job's Environment, or None for a native job."""
    wished = {"steps": plan.steps(model), "chunk": plan.chunks[model], "small": int(plan.small), "learning_rate": 1e-3}
    return same_model.in_turns(model, kinds, base, threads=plan.threads, forked=plan.small, **wished)


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
        ratios = {kind: ratio(later(native), later(trained[kind])) for kind in kinds}
        best = max((kind for kind in kinds if kind != NATIVE), key=lambda kind: ratios[kind].value)
        for kind in kinds:
            one = trained[kind]
            rows.append(
                (
                    model,
                    kind,
                    1000 * statistics.median(later(one)) / plan.chunks[model],
                    "1" if kind == NATIVE else against_peer(ratios[kind]),
                    "1" if kind == NATIVE else against_peer(ratio(later(native, CPU), later(one, CPU))),
                    one.chunks[0][WALL],
                    one.compiling_s if kind in XLA else "",
                    _promised(model, kind, best, ratios[kind], trained),
                )
            )
    conditions = (
        f"{plan.rounds} rounds of {_counted(found, plan)} steps, AdamW in float32, {plan.threads} thread(s), with an "
        "empty cache. Speed over native: a native step's time over this one's, so above 1 is faster. By CPU time: the "
        "same with the CPU time of all threads. The first step also traces. Compiling s: of all steps. Intervals: "
        "Student's, 95 %. Of gpt2 and bert the fastest compiler has the promise, of the others Inductor."
    )
    return Table("A step", HEADS[0], rows, conditions, {"trainings": (len(rows), len(found) * len(kinds))})


def _counted(models: Iterable[str], plan: Plan) -> str:
    """Returns `4 (gpt2), 60 (mlp)`."""
    return ", ".join(f"{plan.chunks[model]} ({model})" for model in models)


def _promised(model: str, kind: str, best: str, speed: Figure, trained: Mapping[str, Trained]) -> str:
    """Returns what is promised of this row, and whether it is met. Of transformers the best compiler is meant."""
    bars = []
    transformer = model in TRANSFORMERS
    if kind == (best if transformer else INDUCTOR):
        bars.append(Bar(SPEED, speed, AT_LEAST[transformer]))
    if kind in XLA and kind != BUILT_IN:
        compiling = trained[kind].compiling_s / trained[BUILT_IN].compiling_s
        bars.append(Bar("compiling s over the built-in client's", compiling, COMPILE_AT_MOST, at_most=True))
    return "; ".join(map(str, bars))


def _whole_jobs(kinds: Sequence[str], base: Path, plan: Plan) -> Table:
    """Runs whole jobs of Transformers' Trainer, each kind in turn. Those with a cache are cold and warm."""
    runs: dict[str, Callable[[], JobRun]] = {}
    for number_, kind in enumerate(kinds):
        variables = COMPILERS.get(kind)
        cached = kind not in (NATIVE, BUILT_IN)
        for state in ("cold", "warm") if cached else ("",):
            place = base / f"{number_}{state}"
            runs[f"{kind}, {state}" if state else kind] = _Job(place, variables, state, plan)
    found = in_turns(plan.jobs, runs)
    native = Figure.of([one.wall for one in found[NATIVE]])
    rows: list[tuple[Cell, ...]] = []
    for kind, jobs in found.items():
        wall = Figure.of([one.wall for one in jobs])
        most = max(one.compiled for one in jobs)
        warm = (
            Bar("wall s over the native job's", wall.over(native), WARM_AT_MOST, at_most=True),
            Bar("programs compiled", most, 0, at_most=True),
        )
        rows.append(
            (
                kind,
                wall,
                Figure.of([one.cpu for one in jobs]),
                most,
                Figure.of([one.steps[0] for one in jobs]),
                Figure.of([1000 * statistics.median(one.steps[1:]) for one in jobs]),
                "; ".join(map(str, warm)) if kind.endswith("warm") else "",
            )
        )
    size = "2 layers x 32, rows of 16 tokens" if plan.small else "4 layers x 256, 8 rows of 128 tokens"
    conditions = (
        f"Transformers' Trainer with GPT-2 of {size}, {TRAINER_STEPS} steps, {plan.jobs} job(s) of each kind in turn, "
        "from the start of `train` to its end; median, least and most. Cold: with an empty cache; warm: with that of "
        "an earlier job. Programs compiled: those that no cache had, at most."
    )
    counts = {"jobs": (sum(map(len, found.values())), plan.jobs * len(runs))}
    return Table("A whole job", HEADS[1], rows, conditions, counts)


#: A step ends when its loss is read, which the Trainer does to log it.
TRAINER = """
import os
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

layers, width, tokens, steps = map(int, os.environ["MODEL"].split())
size = {"n_layer": layers, "n_embd": width, "n_head": 2, "n_positions": tokens, "vocab_size": 5000}
torch.manual_seed(0)
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 5000, (8 * steps, tokens))]


class Steps(TrainerCallback):
    def on_train_begin(self, *_, **__):
        print(f"step {time.time():.6f}", flush=True)

    def on_log(self, arguments, state, control, logs=None, **_):
        if "loss" in logs:
            print(f"step {time.time():.6f}", flush=True)


arguments = TrainingArguments(
    output_dir=os.environ["SM_OUTPUT_DATA_DIR"], max_steps=steps, per_device_train_batch_size=8, logging_steps=1,
    save_strategy="no", report_to=[], disable_tqdm=True,
)
trainer = Trainer(
    model=GPT2LMHeadModel(GPT2Config(**size)), args=arguments, train_dataset=rows, callbacks=[Steps()]
)
trainer.train()
trainer.save_model(os.environ["SM_MODEL_DIR"])
"""
TRAINER_STEPS = 20


@dataclass(frozen=True)
class JobRun:
    #: Seconds of the whole job, and CPU seconds of all its processes.
    wall: float
    cpu: float
    #: Programs that no cache had.
    compiled: int
    #: Seconds of each step.
    steps: Sequence[float]


class _Job:
    """Runs one kind of job again and again."""

    def __init__(self, base: Path, variables: Mapping[str, str] | None, state: str, plan: Plan) -> None:
        self._base, self._state = base, state
        threads = str(plan.threads)
        self._environment = {
            # On CPUs, whatever the machine has.
            **{"OMP_NUM_THREADS": threads, "PJRT_NPROC": threads, "CUDA_VISIBLE_DEVICES": ""},
            "MODEL": f"{'2 32 16' if plan.small else '4 256 128'} {TRAINER_STEPS}",
            **(variables or {}),
        }
        self._hyperparameters = {} if variables is None else same_model.COMPILER
        self._runs = 0

    def __call__(self) -> JobRun:
        if self._state == "warm" and not self._runs:
            self._run()  # Fills the cache.
        return self._run()

    def _run(self) -> JobRun:
        self._runs += 1
        cache = self._base / ("cache" if self._state == "warm" else f"cache-{self._runs}")
        cache.mkdir(parents=True, exist_ok=True)
        given = {"SAGELET_COMPILE_CACHE": str(cache)} if self._state else {}
        used, began = os.times(), time.perf_counter()
        base = self._base / str(self._runs)
        host = TrainingHost(base, {**self._environment, **given})
        host.script(TRAINER)
        ended = host.run(dict(self._hyperparameters))
        wall, now = time.perf_counter() - began, os.times()
        if ended.code:
            raise SystemExit(ended.log)
        cpu = now.children_user + now.children_system - used.children_user - used.children_system
        moments = [float(at) for at in re.findall(r"^step ([\d.]+)$", ended.log, re.MULTILINE)]
        (worker,) = workers_of(base, "algo-1")
        compiled = worker.cache.misses if worker.cache.enabled else worker.compiles
        return JobRun(wall, cpu, compiled, [two - one for one, two in pairwise(moments)])


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
    lines = [f"{model}: {number(1000 * statistics.median(later(plain)) / plan.chunks[model])} ms a step without a flag"]
    for one in flags:
        wall, cpu = ratio(later(plain), later(found[one])), ratio(later(plain, CPU), later(found[one], CPU))
        first = number(found[one].chunks[0][WALL])
        lines.append(f"{one}: {against_peer(wall)}; of CPU time {against_peer(cpu)}; first step {first} s")
    return "\n".join(lines)


if __name__ == "__main__":
    print(search(sys.argv[1], sys.argv[2:], replace(PLANS[Scale.FULL], models=(sys.argv[1],))))
