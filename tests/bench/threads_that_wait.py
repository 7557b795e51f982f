"""Trains a model as one process and as three at once, with libgomp's own waiting and with that of sagelet's jobs.

    PYTHONPATH=tests:images/runtime python tests/bench/threads_that_wait.py [ROUNDS]

Two threads on two CPUs each, in turns. The table has the medians of a step in ms, and the least and the most.
"""

import os
import subprocess
import sys
import time
from contextlib import ExitStack

from bench.machine import processor
from bench.tables import Figure
from sagelet_runtime.gpu.device import SPINNING, SPINS

#: libgomp's default is 300,000 times, unless it knows of more threads than CPUs.
KINDS = {"libgomp's own": {}, "sagelet's": {SPINNING[0]: SPINS}}
STEPS = {1: 20, 3: 6}


def main(rounds: int) -> None:
    found: dict[tuple[int, str], list[float]] = {}
    for number in range(rounds):
        for at_once in STEPS:
            for kind in sorted(KINDS, reverse=bool(number % 2)):
                found.setdefault((at_once, kind), []).append(_step_ms(at_once, KINDS[kind]))
    print(f"{processor()}, {len(os.sched_getaffinity(0))} CPUs, load average {os.getloadavg()[0]:.1f}")
    for (at_once, kind), times in sorted(found.items()):
        print(f"{at_once} at once, {kind} waiting: {Figure.of(times)} ms")


def _step_ms(at_once: int, variables: dict[str, str]) -> float:
    """Returns the mean of all processes' steps."""
    kept = {name: value for name, value in os.environ.items() if name not in SPINNING}
    command = [sys.executable, __file__, "--one", str(STEPS[at_once])]
    with ExitStack() as stack:
        every = [
            stack.enter_context(
                subprocess.Popen(
                    command, env={**kept, **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(at_once)
        ]
        for process in every:
            assert process.stdout is not None
            process.stdout.readline()
        answers = []
        for process in every:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in every:
            assert process.stdout is not None
            answers.append(float(process.stdout.readline()))
    return sum(answers) / at_once


def one(steps: int) -> None:
    """Trains when a line comes, and prints the milliseconds of a step."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(2)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(5000, 256), nn.TransformerEncoder(layer, 4), nn.Linear(256, 5000))
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 5000, (8, 128))

    def train() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(tokens).view(-1, 5000), tokens.view(-1)).backward()
        optimizer.step()

    train()
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    for _ in range(steps):
        train()
    print(1000 * (time.perf_counter() - began) / steps, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(int(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
