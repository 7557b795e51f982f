"""`make bench-report`: what counting for the compile report adds to a step; one process, on and off in turns.

Prints a table and, with a file name as argument, writes the figures there as JSON.

Everything that counting put in place is taken out and put back between blocks of steps, so both see the same machine,
caches and compiled programs. Two times are given: the wall clock, which other work on the machine disturbs, and the
CPU time of the script's own thread, which it hardly does. The thread that writes the report, once a
second, is given apart: `writing_ms` of CPU time each.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

REPORTS = tempfile.mkdtemp()
os.environ |= {"PJRT_DEVICE": "CPU", "SAGELET_REPORT_DIR": REPORTS, "SM_TRAINING_COMPILER_CONFIGURED": "1"}

import torch
import torch_xla
import torch_xla.distributed.parallel_loader as loaders
from torch.optim.optimizer import _global_optimizer_post_hooks as HOOKS

from sagelet_runtime import hook
from sagelet_runtime.reporting import compiled, writer

BLOCKS = int(os.environ.get("BENCH_REPORT_BLOCKS", "60"))
SECONDS = float(os.environ.get("BENCH_REPORT_BLOCK_SECONDS", "2"))
#: What counting changes; the rest of sagelet's hook stays as it is.
PATCHED = (
    torch,
    torch.Tensor,
    torch.autograd,
    torch.utils.data.dataloader._BaseDataLoaderIter,
    torch_xla._XLAC,
    loaders.ParallelLoader,
)
ABSENT = object()


@dataclass
class Patch:
    owner: Any
    name: str
    before: Any
    after: Any

    def put(self, value: Any) -> None:
        if value is ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)


class Switch:
    """Turns counting on and off: all attributes that installing it has changed, and its thread."""

    def __init__(self) -> None:
        known = set(HOOKS)
        before = [dict(vars(owner)) for owner in PATCHED]
        made: list[writer.Writer] = []
        install = writer.Writer.install
        writer.Writer.install = lambda self: (made.append(self), install(self))[1]  # type: ignore[method-assign]
        compiled.install(torch_xla)
        (self.writer,) = made
        self._patches = [
            Patch(owner, name, old.get(name, ABSENT), value)
            for owner, old in zip(PATCHED, before, strict=True)
            for name, value in list(vars(owner).items())
            if old.get(name, ABSENT) is not value and not name.startswith("__class")
        ]
        self._hooks = {key: HOOKS[key] for key in HOOKS if key not in known}
        self._write, self._look = writer.Writer.write_if_due, compiled.CompiledWorker.look
        assert len(self._patches) > 10
        assert self._hooks
        self._on = True

    def turn(self, on: bool) -> None:
        if on == self._on:
            return
        self._on = on
        for patch in self._patches:
            patch.put(patch.after if on else patch.before)
        for key, value in self._hooks.items():
            if on:
                HOOKS[key] = value
            else:
                del HOOKS[key]
        writer.Writer.write_if_due = self._write if on else (lambda self: None)  # type: ignore[method-assign]
        compiled.CompiledWorker.look = self._look if on else (lambda self: None)  # type: ignore[method-assign]


class Block(torch.nn.Module):
    """A GPT-2 layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.second(x))


class Gpt(torch.nn.Module):
    def __init__(self, layers: int, width: int, length: int, words: int) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.head = torch.nn.Linear(width, words, bias=False)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))
        self.register_buffer("numbers", torch.arange(length))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(self.numbers)
        for block in self.blocks:
            x = block(x, self.mask)
        return torch.nn.functional.cross_entropy(self.head(x)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Tiny(torch.nn.Module):
    """The worst case: a step of half a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).pow(2).mean()


class Endless(torch.utils.data.IterableDataset):  # type: ignore[misc]
    def __init__(self, make: Callable[[], torch.Tensor]) -> None:
        self._rows = [make() for _ in range(64)]

    def __iter__(self) -> Any:
        while True:
            yield from self._rows


def trainer(model: torch.nn.Module, row: Callable[[], torch.Tensor], batch: int, read_every: int) -> Callable[[], None]:
    """One step of an ordinary script: a batch, backward, AdamW, and now and then the loss is read."""
    device = torch_xla.device()
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Endless(row), batch_size=batch)
    batches = iter(loaders.MpDeviceLoader(loader, device))
    count = 0

    def step() -> None:
        nonlocal count
        optimizer.zero_grad()
        loss = model(next(batches))
        loss.backward()
        optimizer.step()
        torch_xla.sync(wait=True)
        count += 1
        if count % read_every == 0:
            loss.item()

    return step


def measure(step: Callable[[], None], switch: Switch) -> dict[str, float]:
    """Median ms of a step, on and off, by both clocks, and what counting adds in percent."""
    for _ in range(6):
        step()
    begin = time.perf_counter()
    for _ in range(5):
        step()
    steps = max(10, round(SECONDS * 5 / (time.perf_counter() - begin)))
    found: dict[tuple[str, bool], list[float]] = {}
    for block in range(BLOCKS):
        on = block % 4 in (1, 2)
        switch.turn(on)
        wall, cpu = time.perf_counter(), time.thread_time()
        for _ in range(steps):
            step()
        found.setdefault(("wall", on), []).append((time.perf_counter() - wall) / steps * 1000)
        found.setdefault(("cpu", on), []).append((time.thread_time() - cpu) / steps * 1000)
    switch.turn(True)
    begin = time.thread_time()
    for _ in range(20):
        switch.writer.write()
    written_ms = (time.thread_time() - begin) / 20 * 1000
    figures: dict[str, float] = {"steps": steps * BLOCKS, "writing_ms": written_ms}
    for clock in ("wall", "cpu"):
        off, on_ms = (statistics.median(found[clock, on]) for on in (False, True))
        figures |= {f"{clock}_off_ms": off, f"{clock}_on_ms": on_ms, f"{clock}_percent": (on_ms / off - 1) * 100}
        figures[f"{clock}_min_percent"] = (min(found[clock, True]) / min(found[clock, False]) - 1) * 100
    return figures


def main() -> None:
    torch.manual_seed(0)
    for part in ("compat", "ties", "optimizers"):
        getattr(__import__(f"sagelet_runtime.{part}"), part).install(torch_xla)
    assert hook.STARTED_MS
    switch = Switch()
    models = {
        "GPT-2 shape, 2 layers, width 256, 8 x 128": trainer(
            Gpt(2, 256, 128, 5000), lambda: torch.randint(0, 5000, (128,)), 8, 10
        ),
        "tiny MLP": trainer(Tiny(), lambda: torch.randn(32), 16, 10),
    }
    results = {name: measure(step, switch) for name, step in models.items()}
    for name, figures in results.items():
        print(name, json.dumps({key: round(value, 3) for key, value in figures.items()}))
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
