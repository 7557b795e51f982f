"""`make bench-report`: what counting for the compile report adds to a step, on and off in turns.

Prints the conditions and a table; with `--write` puts both into docs/reference/compiler-report.md. Four turns make a
round: off, on, on, off, so that a machine that gets slower or faster disturbs both alike. Of a round counts how much
more CPU time the turns with counting took, of all processes and threads: other work on the machine disturbs that
little, the wall clock much. The result is the median of the rounds, with the 95 % interval of that median. XLA computes
with one thread, as idle ones of its pool spin.

On a busy machine that interval is wide. So what counting does in a step is timed alone, too (report_worker.py), in
microseconds and as a share of the step.
"""

import argparse
import os
import platform
import statistics
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from math import comb
from pathlib import Path

from bench import page
from bench.machine import processor
from support.xla_workers import Workers, results

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "compiler-report.md"
#: Model, workers, and steps of a turn.
RUNS = (("gpt2", 1, 2), ("gpt2", 2, 2), ("mlp", 1, 10), ("mlp", 2, 10))
#: Seconds of a run, also on a machine that others use.
DEADLINE = 3600.0
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
SAID = {"gpt2": "GPT-2 shape, 2 layers, width 256, batch 8 x 128", "mlp": "tiny MLP, the worst case"}


@dataclass(frozen=True)
class Row:
    model: str
    workers: int
    off_ms: float
    on_ms: float
    #: The quickest without counting: as on an idle machine, as far as this one was ever idle.
    quickest_ms: float
    #: Of each round, percent of CPU time that counting added.
    added: list[float]
    #: What it does in a step, alone.
    alone_us: float
    #: Of the thread that writes the report, once a second.
    writing_ms: float

    @property
    def alone(self) -> float:
        """Percent of the quickest step, and of each second, that counting and writing take alone."""
        return self.alone_us / self.quickest_ms / 10 + self.writing_ms / 10

    def interval(self, coverage: float = 0.95) -> tuple[float, float]:
        """Of the median, whatever the rounds' distribution: by its order statistics."""
        ordered, count = sorted(self.added), len(self.added)
        below, cut = 0.0, 0
        while cut < count // 2 and below + comb(count, cut) / 2**count <= (1 - coverage) / 2:
            below += comb(count, cut) / 2**count
            cut += 1
        first = max(0, cut - 1)
        return ordered[first], ordered[count - 1 - first]


def measure(model: str, workers: int, steps: int, rounds: int) -> Row:
    with tempfile.TemporaryDirectory() as base:
        command = [Path(__file__).with_name("report_worker.py"), model, str(4 * rounds), str(steps), base]
        environment = {"XLA_FLAGS": ONE_THREAD, "SAGELET_REPORT_DIR": ""}
        with Workers(workers, command, Path(base), environment) as running:
            for ended in [running.ended(rank, DEADLINE) for rank in range(workers)]:
                assert ended.code == 0, ended.err
        found = results(Path(base), workers)
    turns = [sum(each) / workers for each in zip(*(one["cpu"] for one in found), strict=True)]
    quads = [turns[first : first + 4] for first in range(0, len(turns), 4)]
    return Row(
        model,
        workers,
        statistics.median((quad[0] + quad[3]) / 2 for quad in quads),
        statistics.median((quad[1] + quad[2]) / 2 for quad in quads),
        min(min(quad[0], quad[3]) for quad in quads),
        [((quad[1] + quad[2]) / (quad[0] + quad[3]) - 1) * 100 for quad in quads],
        statistics.mean(one["empty_us"][0] for one in found),
        statistics.mean(one["writing"][0] for one in found),
    )


HEAD = (
    "model", "workers", "CPU ms a step, off", "on", "counting adds", "95 % interval", "quickest step",
    "counting alone", "a writing, once a second", "both alone",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    low, high = row.interval()
    return (
        SAID[row.model],
        str(row.workers),
        f"{row.off_ms:.3g}",
        f"{row.on_ms:.3g}",
        f"**{statistics.median(row.added):+.2f} %**",
        f"{low:+.2f} to {high:+.2f} %",
        f"{row.quickest_ms:.3g} ms",
        f"{row.alone_us:.0f} us",
        f"{row.writing_ms:.1f} ms",
        f"**{row.alone:.2f} %**",
    )


def conditions(rounds: int, loads: list[float]) -> str:
    return (
        f"{datetime.now(timezone.utc):%Y-%m-%d}, `make bench-report`: {processor()}, "
        f"{len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}, torch {version('torch')}, "
        f"torch_xla {version('torch_xla')}; {rounds} rounds; "
        f"load of the machine meanwhile (1 min mean) {min(loads):.1f} to {max(loads):.1f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="", help="gpt2 or mlp")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reference/compiler-report.md")
    options = parser.parse_args()
    rows, loads = [], [os.getloadavg()[0]]
    for model, workers, steps in RUNS:
        if options.only in ("", model):
            rows.append(cells(measure(model, workers, steps, options.rounds)))
            loads.append(os.getloadavg()[0])
            print(*rows[-1], sep=" | ", flush=True)
    text = f"{conditions(options.rounds, loads)}\n\n{page.table(HEAD, rows)}"
    print(f"\n{text}")
    if options.write:
        page.write(PAGE, text)


if __name__ == "__main__":
    main()
