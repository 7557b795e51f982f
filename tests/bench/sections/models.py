"""The same models trained natively and compiled, from one seed: do they agree, and how fast are they.

Each training is a process of its own under the runtime package, as a job's script is. The two trainings of a model take
turns, some steps each, so that a load of the machine affects both. Speed is in CPU seconds of all their threads,
which a load changes little. The ratio of one run means something, the times do not.
"""

import os
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.tables import Figure, Row, Scale, Table, against_peer
from support import same_model
from support.same_model import TOLERANCES, Difference, Trained

HEADS = (
    ("model", "loss differs by", "weights differ by", "tolerance", "agrees", "native with other threads differs by",
     "native CPU ms", "compiled CPU ms", "native / compiled", "by the clock", "compiling s", "even after steps"),
)  # fmt: skip
#: Places in a chunk's figures.
WALL, CPU = 0, 1


class Plan(NamedTuple):
    models: tuple[str, ...]
    steps: int
    #: Steps of a turn.
    chunk: int
    #: Threads of torch and of XLA.
    threads: int
    small: bool


PLANS = {
    Scale.FULL: Plan(tuple(TOLERANCES), 41, 5, len(os.sched_getaffinity(0)), small=False),
    Scale.SHORT: Plan(("mlp",), 9, 2, 1, small=True),
}


class Pair(NamedTuple):
    name: str
    native: Trained
    compiled: Trained
    #: Difference of native trainings with different numbers of threads: the effect of rounding alone.
    spread: Difference
    #: Steps in a chunk.
    chunk: int

    def later_ms(self, trained: Trained, clock: int = CPU) -> list[float]:
        """A step's time in the chunks after the second, in which XLA still compiles (the optimizer's state is new)."""
        return [1000 * chunk[clock] / self.chunk for chunk in trained.chunks[2:]]

    def ratio(self, clock: int = CPU) -> Figure:
        """Above 1: compiled is faster. The interval is of the pairs of turns."""
        native, compiled = self.later_ms(self.native, clock), self.later_ms(self.compiled, clock)
        pairs = [one / other for one, other in zip(native, compiled, strict=True)]
        return Figure(median(native) / median(compiled), min(pairs), max(pairs))

    def row(self) -> Row:
        tolerance, found = TOLERANCES[self.name], same_model.difference(self.native, self.compiled)
        native_ms, compiled_ms = median(self.later_ms(self.native)), median(self.later_ms(self.compiled))
        # CPU seconds that the compiled training's first steps took more than its later ones.
        first = sum(chunk[CPU] for chunk in self.compiled.chunks[:2])
        compiling = first - (self.chunk + 1) * compiled_ms / 1000
        won = (native_ms - compiled_ms) / 1000
        return (
            self.name,
            f"{found.loss:.1e}",
            f"{found.weights:.1e}",
            f"{tolerance.loss:.0e} / {tolerance.weights:.0e}",
            "yes" if found.within(tolerance) else "NO",
            f"{self.spread.loss:.1e} / {self.spread.weights:.1e}",
            native_ms,
            compiled_ms,
            against_peer(self.ratio()),
            against_peer(self.ratio(WALL)),
            compiling,
            # Steps after which the compiled training has caught up.
            f"{round(compiling / won):,}" if won > 0 else "never",
        )


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    rows = [_trained(name, directory / name, plan).row() for name in plan.models]
    conditions = (
        f"{plan.steps} steps of AdamW (1e-3) in float32, {plan.threads} thread(s), in turns of {plan.chunk} steps."
    )
    counts = {"models that agree": (sum(row[4] == "yes" for row in rows), len(plan.models))}
    return [Table("Native against compiled", HEADS[0], rows, conditions, counts)]


def _trained(name: str, base: Path, plan: Plan) -> Pair:
    """Trains one model natively and compiled in turns, then natively with another number of threads."""
    options = {"steps": plan.steps, "chunk": plan.chunk, "small": int(plan.small)}
    found = same_model.in_turns(
        name, {"native": None, "compiled": {}}, base, threads=plan.threads, forked=plan.small, **options
    )
    threads = 2 if plan.threads == 1 else 1
    other = same_model.in_turns(name, {"other": None}, base / "alone", threads=threads, forked=plan.small, **options)[
        "other"
    ]
    native = found["native"]
    return Pair(name, native, found["compiled"], same_model.difference(native, other), plan.chunk)
