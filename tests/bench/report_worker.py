"""One worker of `make bench-report`: trains, counting on and off in turns, and leaves what each turn took as JSON.

`report_worker.py MODEL TURNS STEPS DIRECTORY`. Everything that counting put in place is taken out and put back between
turns, so both see the same machine, caches and compiled programs. CPU time is the whole process's: the script's thread,
XLA's, and the thread that writes the report, which writes as often as in a job.

Then all that counting does in a step is done alone, around functions that do nothing, many times over: what that takes
in the quickest of many rounds hardly depends on what else the machine does.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as loaders
from torch.optim.optimizer import _global_optimizer_post_hooks as HOOKS

from sagelet_runtime.reporting import compiled, evaluations, graphs, inputs, stepping, writer
from sagelet_runtime.reporting.counters import Counters
from sagelet_runtime.reporting.inputs import Batches
from sagelet_runtime.reporting.recorder import Recorder

#: Steps before the first turn: they compile.
WARM_UP = 8
#: Writings that are timed alone.
WRITINGS = 50
#: Rounds of empty steps, and steps of each.
EMPTY_ROUNDS, EMPTY_STEPS = 60, 500
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
    """The worst case: a step that computes next to nothing."""

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


def trainer(model: torch.nn.Module, row: Callable[[], torch.Tensor], batch: int) -> Callable[[], None]:
    """One step of an ordinary script: a batch, backward, AdamW, and one time in ten the loss is read."""
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
        xm.optimizer_step(optimizer)
        torch_xla.sync(wait=True)
        count += 1
        if count % 10 == 0:
            loss.item()

    return step


MODELS: dict[str, Callable[[], Callable[[], None]]] = {
    "gpt2": lambda: trainer(Gpt(2, 256, 128, 5000), lambda: torch.randint(0, 5000, (128,)), 8),
    "mlp": lambda: trainer(Tiny(), lambda: torch.randn(32), 16),
}


def nothing(*_args: Any, **_kwargs: Any) -> None:
    """What is counted, without what it does."""


def empty_step_us() -> float:
    """Microseconds of CPU that counting takes in a step: `trainer`'s calls, around functions that do nothing.

    The quickest round with counting less the quickest without.
    """
    batch = [torch.zeros(2, 2)]
    tensor = torch.zeros(2, device=torch_xla.device())
    optimizer = torch.optim.SGD([torch.nn.Parameter(tensor)], lr=0.1)

    def originals() -> tuple[Any, Any]:
        native = SimpleNamespace(
            _xla_step_marker=nothing, _xla_sync_live_tensors=nothing, _xla_sync_multi=nothing,
            _xla_get_default_device=nothing,
        )  # fmt: skip
        loading = SimpleNamespace(__next__=lambda _: batch)
        data = SimpleNamespace(dataloader=SimpleNamespace(_BaseDataLoaderIter=loading))
        return native, SimpleNamespace(utils=SimpleNamespace(data=data), autograd=SimpleNamespace(backward=nothing))

    recorder = Recorder(0)
    batches = Batches(recorder, torch.Tensor)
    counted, counted_torch = originals()
    graphs.install(SimpleNamespace(_XLAC=counted), Counters(torch_xla), recorder)
    inputs.install(counted_torch, batches)
    plain = frozenset((torch.Tensor,))
    item = evaluations._reading(nothing, "item", plain, recorder.reading, recorder)
    to = evaluations._moving(nothing, torch.device, plain, recorder.reading, recorder)
    native, own_torch = originals()
    variants = [
        (native, own_torch, nothing, nothing, nothing),
        (counted, counted_torch, stepping.observer(recorder, batches.used), item, to),
    ]
    return (_quickest(*variants[1], batch, tensor, optimizer) - _quickest(*variants[0], batch, tensor, optimizer)) * 1e6


def _quickest(
    native: Any, its: Any, stepped: Any, item: Any, to: Any, batch: Any, tensor: Any, optimizer: Any
) -> float:
    """Seconds of an empty step."""
    take, backward = its.utils.data.dataloader._BaseDataLoaderIter.__next__, its.autograd.backward
    best = float("inf")
    for _ in range(EMPTY_ROUNDS):
        begin = time.thread_time()
        for number in range(EMPTY_STEPS):
            take(None)
            to(batch[0], "xla")
            to(batch[0], "xla")
            backward()
            native._xla_sync_live_tensors()
            stepped(optimizer, (), {})
            native._xla_step_marker()
            if number % 10 == 0:
                item(tensor)
        best = min(best, (time.thread_time() - begin) / EMPTY_STEPS)
    return best


def main() -> None:
    name, turns, steps, directory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    # Only now: the hook that came with torch_xla is not to count.
    os.environ[writer.DIRECTORY] = str(directory)
    torch.manual_seed(0)
    switch = Switch()
    step = MODELS[name]()
    for _ in range(WARM_UP):
        step()
    found: dict[str, list[float]] = {"cpu": []}
    for turn in range(turns):
        switch.turn(turn % 4 in (1, 2))
        begin = time.process_time()
        for _ in range(steps):
            step()
        found["cpu"].append((time.process_time() - begin) / steps * 1000)
    switch.turn(True)
    begin = time.thread_time()
    for _ in range(WRITINGS):
        switch.writer.write()
    found["writing"] = [(time.thread_time() - begin) / WRITINGS * 1000]
    found["empty_us"] = [empty_step_us()]
    rank = os.environ.get("RANK", "0")
    (directory / f"rank-{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
