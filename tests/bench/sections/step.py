"""What a training step costs the host, from unchanged scripts, by the way in which sagelet traces it.

The model has GPT-2 124M's structure at width 32. There is almost nothing to compute, so a step is host cost. The
trainings of a script take turns, some steps each, so that a load of the machine weighs on all.
"""

import json
import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.sections.compiled import ratio
from bench.tables import Bar, Figure, Row, Scale, Table
from support import step_counters
from support.same_model import COMPILER
from support.taking_turns import in_turns
from support.training_host import TrainingHost

SCRIPTS = Path(__file__).parents[2] / "support" / "step_scripts"
#: Runs `script.py` beside it.
TIMED = "timed_steps.py"
#: The scripts, by the names in the tables.
NAMES = {"a plain loop": "plain.py", "Accelerate": "accelerated.py", "Trainer": "trainer.py"}
EAGER, LAZY = "eager", "lazy"
#: The ways in which a job traces, and None for a native job.
MODES: Mapping[str, str | None] = {EAGER: None, LAZY: LAZY, "auto": "auto", "once": "once"}
#: What `once` shall cost the host, over lazy tracing.
AT_MOST = {"a plain loop": 0.15, "Trainer": 0.2}
OVER_LAZY = "over lazy"
HEADS = (
    ("script", "tracing", "main thread's CPU ms", OVER_LAZY, "with autograd's thread", "by the clock", "promised"),
    ("script", "tracing", "lazy operations", "tensors", "nodes of graphs", "programs run", "arguments", "compiled"),
)
#: torch_xla's counts of a step, in the order of the second table.
COUNTS = ("lazy_operations", "tensors", "graph_nodes", "executions", "arguments", "compiles")


@dataclass(frozen=True)
class Plan:
    scripts: tuple[str, ...]
    layers: int
    #: Turns that are compared.
    rounds: int
    #: Steps of a turn, and those before the first turn, in which XLA compiles.
    steps: int
    warming: int
    #: True if scripts are forks of a process that has imported torch: no figure is kept.
    forked: bool = False

    @property
    def all_steps(self) -> int:
        return self.warming + self.rounds * self.steps + 1


PLANS = {
    Scale.FULL: Plan(tuple(NAMES), 12, 12, 10, 8),
    Scale.SHORT: Plan(("a plain loop",), 2, 2, 2, 6, forked=True),
}


@dataclass(frozen=True)
class Trained:
    losses: list[float]
    turns: list[dict[str, Any]]

    def seconds(self, *clocks: str) -> list[float]:
        """Returns each turn's seconds by these clocks together."""
        return [sum(turn[clock] for clock in clocks) for turn in self.turns]

    @property
    def usual(self) -> dict[str, float]:
        """Returns what a step makes in most turns. In some a loader's thread uploads batches of later steps."""
        return max((turn["counts"] for turn in self.turns), key=self._turns_with)

    @property
    def is_steady(self) -> bool:
        return 2 * self._turns_with(self.usual) > len(self.turns)

    def _turns_with(self, counts: dict[str, float]) -> int:
        return sum(turn["counts"] == counts for turn in self.turns)


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    found = {name: trained(name, directory / NAMES[name], plan) for name in plan.scripts}
    steps = [row for name, modes in found.items() for row in _times(name, modes, plan)]
    counts = [row for name, modes in found.items() for row in _counts(name, modes)]
    conditions = (
        f"GPT-2 with {plan.layers} layers of width 32, one row of 8 tokens, AdamW in float32, one thread; Accelerate "
        f"and the Trainer clip. {plan.rounds} turns of {plan.steps} steps. A ratio is of the turns of one round; its "
        "interval is Student's, at 95 %. autograd's thread traces the backward pass on XLA. Eager: natively."
    )
    alike = sum(_agree(modes) for modes in found.values())
    plans = {"scripts whose losses agree": (alike, len(found))}
    steady = sum(one.is_steady for modes in found.values() for one in modes.values())
    exact = {"trainings with equal steps": (steady, len(found) * len(MODES))}
    usual = (
        "torch_xla's own counters, and the arguments that the plugin got; of most of the same turns, which are equal."
    )
    return [
        Table("The host's part of a step", HEADS[0], steps, conditions, plans),
        Table("What a step makes", HEADS[1], counts, usual, exact),
    ]


def trained(name: str, base: Path, plan: Plan) -> dict[str, Trained]:
    """Trains by one script in each way, all in turns."""
    starts = {mode: partial(_start, NAMES[name], base / mode, tracing, plan) for mode, tracing in MODES.items()}
    hosts = in_turns(starts)
    return {mode: _read(host.log) for mode, host in hosts.items()}


def _start(script: str, base: Path, tracing: str | None, plan: Plan, turns: str) -> Any:
    settings = {
        # One thread, so that eager's kernels run in the main thread. On CPUs, whatever the machine has.
        **{"OMP_NUM_THREADS": "1", "PJRT_NPROC": "1", "CUDA_VISIBLE_DEVICES": "", "TURNS": turns},
        **{"STEPS": str(plan.all_steps), "LAYERS": str(plan.layers)},
        **{"WARMING": str(plan.warming), "STEPS_OF_A_TURN": str(plan.steps)},
        **({"SAGELET_XLA_TRACING": tracing} if tracing else {}),
    }
    host = TrainingHost(base, settings, forked=plan.forked)
    for file in (Path(step_counters.__file__), SCRIPTS / TIMED, SCRIPTS / "step_model.py"):
        host.script(file.read_text(), file.name)
    host.script((SCRIPTS / script).read_text(), "script.py")
    return host, host.start(dict(COMPILER) if tracing else {}, TIMED)


def _read(log: str) -> Trained:
    turns = [json.loads(line) for line in re.findall(r"turn=(\{.*\})", log)]
    (losses,) = re.findall(r"losses=(\[.*\])", log)
    return Trained(json.loads(losses), turns)


def _agree(modes: Mapping[str, Trained]) -> bool:
    lazy = modes[LAZY].losses
    return all(
        len(one.losses) == len(lazy) and all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(one.losses, lazy, strict=True))
        for one in modes.values()
    )


def _times(name: str, modes: Mapping[str, Trained], plan: Plan) -> list[Row]:
    return [_time(name, mode, one, modes[LAZY], plan.steps) for mode, one in modes.items()]


def _time(name: str, mode: str, one: Trained, lazy: Trained, steps: int) -> Row:
    def over(*clocks: str) -> Figure:
        return ratio(one.seconds(*clocks), lazy.seconds(*clocks))

    by_main = over("main")
    promised = str(Bar(OVER_LAZY, by_main, AT_MOST[name], at_most=True)) if mode == "once" and name in AT_MOST else ""
    ratios = ("1",) * 3 if mode == LAZY else (by_main, over("main", "engine"), over("wall"))
    return name, mode, 1000 * statistics.median(one.seconds("main")) / steps, *ratios, promised


def _counts(name: str, modes: Mapping[str, Trained]) -> list[Row]:
    return [
        (name, mode, *(_whole(one.usual[count]) for count in COUNTS)) for mode, one in modes.items() if mode != EAGER
    ]


def _whole(count: float) -> float:
    return int(count) if count == int(count) else count
