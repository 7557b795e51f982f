"""Runs a training script unchanged and times its steps, a turn of some steps each. It is a job's script itself.

Turns are asked for at TURNS (`host:port`), so that several trainings never run at the same time. A step is from one
optimizer step to the next. Each turn has STEPS_OF_A_TURN of them; before the first one there are WARMING steps.
"""

import json
import os
import runpy
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import step_counters

#: How torch names its engine's threads, which trace the backward pass on XLA.
ENGINE = "pt_autograd"
SCRIPT = "script.py"


def cpu_seconds(prefix: str) -> float:
    """Returns the CPU time of this process's threads whose names begin with `prefix`."""
    total = 0
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith(prefix):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Turns:
    """Stops the training between its turns, and prints each turn's times and counts as JSON."""

    def __init__(self, address: str, warming: int, steps: int, counters: Callable[[], dict[str, int]]) -> None:
        host, _, port = address.rpartition(":")
        self._file: Any = socket.create_connection((host, int(port))).makefile("rw")
        self._left, self._steps, self._counters = warming, steps, counters
        self._begun: Any = None

    def step(self) -> None:
        """Is called before each optimizer step."""
        if self._left:
            self._left -= 1
            return
        if self._begun is not None:
            print("turn=" + json.dumps(self._turn()), flush=True)
            self._file.write("done\n")
            self._file.flush()
        self._file.readline()
        self._left = self._steps - 1
        counts = self._counters()
        self._begun = (counts, cpu_seconds(ENGINE), time.thread_time(), time.perf_counter())

    def _turn(self) -> dict[str, Any]:
        """Returns the seconds of the turn, and what one of its steps was in counts."""
        main, wall = time.thread_time(), time.perf_counter()
        before, engine, main_before, wall_before = self._begun
        # Here, since this waits for the device.
        counts = {name: (now - before[name]) / self._steps for name, now in self._counters().items()}
        return {
            "main": main - main_before,
            "engine": cpu_seconds(ENGINE) - engine,
            "wall": wall - wall_before,
            "counts": counts,
        }


def main() -> None:
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    counters = step_counters.counters if os.environ.get("USE_TORCH_XLA") == "1" else dict
    turns = Turns(os.environ["TURNS"], int(os.environ["WARMING"]), int(os.environ["STEPS_OF_A_TURN"]), counters)
    register_optimizer_step_pre_hook(lambda *_: turns.step())
    runpy.run_path(SCRIPT, run_name="__main__")


if __name__ == "__main__":
    main()
