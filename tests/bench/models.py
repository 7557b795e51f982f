"""`make bench-models`: the same models trained natively and compiled, from one seed: do they agree, and how fast.

Prints the conditions and a table; with `--write` puts both into docs/explanation/same-model.md. Each training is a
process of its own under the runtime package, as a job's script is. The two trainings of a model take turns, some steps
each, so that a load of the machine weighs on both, and speed is in CPU seconds of all their threads, which a load
changes little. The ratio of one run means something, the times do not.
"""

import argparse
import os
import platform
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench import page
from bench.machine import processor
from support import same_model
from support.same_model import TOLERANCES, Difference, Trained

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "same-model.md"
PACKAGES = ("torch", "torch_xla", "transformers")
KINDS = ("native", "compiled")
#: Places in a chunk's figures.
WALL, CPU = 0, 1


@dataclass(frozen=True)
class Row:
    name: str
    native: Trained
    compiled: Trained
    difference: Difference
    #: Of native trainings with different numbers of threads: what rounding alone does to this model.
    spread: Difference
    #: Steps in a chunk.
    chunk: int

    @property
    def agrees(self) -> bool:
        return self.difference.within(TOLERANCES[self.name])

    def step_ms(self, trained: Trained, clock: int = CPU) -> float:
        """The median over the chunks after the second, in which XLA still compiles (the optimizer's state is new)."""
        return median(chunk[clock] for chunk in trained.chunks[2:]) / self.chunk * 1000

    def ratio(self, clock: int = CPU) -> float:
        """Above 1: compiled is faster."""
        return self.step_ms(self.native, clock) / self.step_ms(self.compiled, clock)

    @property
    def compiling_seconds(self) -> float:
        """CPU seconds that the compiled training's first steps took more than its later ones."""
        first = sum(chunk[CPU] for chunk in self.compiled.chunks[:2])
        return first - (self.chunk + 1) * self.step_ms(self.compiled) / 1000

    @property
    def break_even(self) -> str:
        """Steps after which the compiled training has caught up."""
        won = (self.step_ms(self.native) - self.step_ms(self.compiled)) / 1000
        return f"{round(self.compiling_seconds / won):,}" if won > 0 else "never"


class Director:
    """Gives leave to one of several trainings at a time, in turns."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._players: list[Any] = []

    def admit(self) -> None:
        """Waits for the next training; it stands still until its first turn."""
        self._listening.settimeout(600)
        self._players.append(self._listening.accept()[0].makefile("rw"))

    def direct(self) -> None:
        """Until all have ended."""
        while self._players:
            self._players = [player for player in self._players if _take_turn(player)]

    def close(self) -> None:
        self._listening.close()


def _take_turn(player: Any) -> bool:
    """False when the training has ended."""
    try:
        player.write("go\n")
        player.flush()
        return bool(player.readline())
    except OSError:
        return False


@contextmanager
def directed() -> Iterator[Director]:
    with closing(Director()) as director:
        yield director


def measure(name: str, base: Path, options: argparse.Namespace) -> Row:
    """Trains one model natively and compiled in turns, then natively with another number of threads."""
    wished = {"models": name, "steps": options.steps, "chunk": options.chunk, "small": int(options.small)}
    threads = options.threads
    with directed() as director:
        hosts = []
        for kind in KINDS:
            more = {"turns": director.address}
            compiled = kind == "compiled"
            hosts.append(same_model.start(base / kind, compiled=compiled, threads=threads, **wished, **more))
            director.admit()
        director.direct()
        native, compiled_one = (same_model.ended(*one, [name])[name] for one in hosts)
    others = 2 if threads == 1 else 1
    other = same_model.ended(*same_model.start(base / "other", compiled=False, threads=others, **wished), [name])[name]
    return Row(
        name,
        native,
        compiled_one,
        same_model.difference(native, compiled_one),
        same_model.difference(native, other),
        options.chunk,
    )


def conditions(options: argparse.Namespace, loads: list[float]) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{datetime.now(timezone.utc):%Y-%m-%d}, {processor()}, {cores} cores, "
        f"Python {platform.python_version()}, {versions}; {options.steps} steps of AdamW (1e-3) in float32, "
        f"{options.threads} thread(s), in turns of {options.chunk} steps; load of the machine meanwhile (1 min mean; "
        f"the training itself makes {options.threads}) {min(loads):.1f} to {max(loads):.1f}."
    )


HEAD = (
    "model", "loss differs by", "weights differ by", "tolerance", "agrees", "native with other threads differs by",
    "native CPU ms", "compiled CPU ms", "native / compiled", "by the clock", "compiling s", "even after steps",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    tolerance = TOLERANCES[row.name]
    return (
        row.name,
        f"{row.difference.loss:.1e}",
        f"{row.difference.weights:.1e}",
        f"{tolerance.loss:.0e} / {tolerance.weights:.0e}",
        "yes" if row.agrees else "NO",
        f"{row.spread.loss:.1e} / {row.spread.weights:.1e}",
        f"{row.step_ms(row.native):.1f}",
        f"{row.step_ms(row.compiled):.1f}",
        f"**{row.ratio():.2f}**",
        f"{row.ratio(WALL):.2f}",
        f"{row.compiling_seconds:.1f}",
        row.break_even,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(TOLERANCES))
    parser.add_argument("--steps", type=int, default=41)
    parser.add_argument("--chunk", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of torch and of XLA")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--write", action="store_true", help="put the table into docs/explanation/same-model.md")
    options = parser.parse_args()
    rows, loads = [], [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as base:
        for name in options.models.split(","):
            rows.append(measure(name, Path(base, name), options))
            loads.append(os.getloadavg()[0])
            print(f"{name}: native / compiled {rows[-1].ratio():.2f}", flush=True)
    text = f"{conditions(options, loads)}\n\n{page.table(HEAD, [cells(row) for row in rows])}"
    print(f"\n{text}")
    if options.write:
        page.write(PAGE, text)
    if not all(row.agrees for row in rows):
        raise SystemExit("a model does not agree")


if __name__ == "__main__":
    main()
