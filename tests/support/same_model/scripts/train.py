"""Trains models of `nets.py` as a job's script: on the XLA device where the job is compiled, else natively.

Writes per model `NAME.npz` (the final weights, by name) and `NAME.json` into SM_MODEL_DIR: the loss of each step, the
seconds in which XLA compiled, and of each chunk of steps the seconds and the CPU seconds of all threads. The first
chunk is the first step.
"""

import argparse
import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nets
import numpy
import torch

COMPILED = os.environ.get("USE_TORCH_XLA") == "1"


class Turns:
    """Asks a process outside for leave before each chunk, so that two trainings never run at the same time."""

    def __init__(self, address: str) -> None:
        self._file: Any = None
        if address:
            host, _, port = address.rpartition(":")
            self._file = socket.create_connection((host, int(port))).makefile("rw")

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        if self._file is None:
            yield
            return
        self._file.readline()
        yield
        self._file.write("done\n")
        self._file.flush()


def device_of_the_job() -> torch.device:
    if not COMPILED:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    import torch_xla

    device: torch.device = torch_xla.device()
    return device


def end_step(*, wait: bool = False) -> None:
    if COMPILED:
        import torch_xla

        torch_xla.sync(wait=wait)


def compiling_s() -> float:
    """Returns the seconds in which XLA has compiled in this process."""
    if not COMPILED:
        return 0.0
    from torch_xla.debug import metrics

    found = metrics.metric_data("CompileTime")
    return found[1] / 1e9 if found else 0.0


def train(name: str, options: argparse.Namespace, turns: Turns) -> None:
    device = device_of_the_job()
    net = nets.make(name, small=bool(options.small))
    net.model.to(device)
    optimizer = torch.optim.AdamW(net.model.parameters(), lr=options.learning_rate)
    batches = net.batches(seed=99)
    losses: list[float] = []
    before_s = compiling_s()
    chunks: list[tuple[float, float]] = []

    def run(steps: int) -> None:
        seen = []
        with turns.turn():
            began, used = time.perf_counter(), time.process_time()
            for _ in range(steps):
                batch = {key: value.to(device) for key, value in next(batches).items()}
                optimizer.zero_grad()
                loss = net.loss(batch)
                loss.backward()
                optimizer.step()
                end_step()
                seen.append(loss.detach())
            end_step(wait=True)
            losses.extend(one.item() for one in seen)
            chunks.append((time.perf_counter() - began, time.process_time() - used))

    run(1)
    while len(losses) < options.steps:
        run(min(options.chunk, options.steps - len(losses)))
    weights = {key: value.cpu().numpy() for key, value in net.model.state_dict().items()}
    target = Path(os.environ["SM_MODEL_DIR"], name)
    numpy.savez(target.with_suffix(".npz"), **weights)
    results = {"device": device.type, "losses": losses, "chunks": chunks, "compiling_s": compiling_s() - before_s}
    target.with_suffix(".json").write_text(json.dumps(results))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(nets.NETS))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--chunk", type=int, default=5)
    parser.add_argument("--small", type=int, default=0)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--turns", default="")
    options = parser.parse_args()
    turns = Turns(options.turns)
    for name in options.models.split(","):
        train(name, options, turns)


main()
