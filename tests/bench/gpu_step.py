"""Times training steps of GPT-2 124M on this machine's GPU, and prints one line of JSON (docs/how-to/gpu.md).

    python tests/bench/gpu_step.py eager|compile|xla|xla-once fp32|tf32|bf16 [ROWS] [STEPS]

One process is one measurement, so that a comparison can take turns. `xla` uses the plugin that sagelet's process
runtime would use, and traces as its jobs do; without a plugin it uses torch_xla's client for CPUs. `xla-once` traces as
with SAGELET_XLA_TRACING=dynamo. Each Python may measure what it has: torch_xla needs torch 2.9, the others take any
torch.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

LAYERS, WIDTH, HEADS, VOCABULARY, LENGTH = 12, 768, 12, 50257, 512
#: The first steps compile. They are reported apart.
FIRST = 3


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, _ = x.shape
        parts = self.qkv(self.before(x)).split(WIDTH, dim=2)
        q, k, v = (part.view(rows, length, HEADS, -1).transpose(1, 2) for part in parts)
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.between(x)), approximate="tanh"))


class GPT2(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.last = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        x = self.token(ids) + self.place(places)
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.last(x), self.token.weight)
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


def xla_device() -> tuple[torch.device, Callable[[], None], Callable[[], None]]:
    """Returns the device that a compiled job gets, what ends a step, and what waits for the device."""
    from sagelet_engine.images.context import find_root

    sys.path.insert(0, str(find_root() / "runtime"))
    from sagelet_runtime.base import installed
    from sagelet_runtime.gpu import plugin
    from sagelet_runtime.torch_xla import in_place

    try:
        os.environ.update(plugin.find_plugin(installed.version("torch_xla") or "").environment(os.environ))
    except plugin.PluginUnavailable:
        os.environ["PJRT_DEVICE"] = "CPU"
    import torch_xla
    import torch_xla.core.xla_model as xm

    if os.environ["PJRT_DEVICE"] != "CPU":
        plugin.install(torch_xla)
    in_place.install(torch_xla)
    return torch_xla.device(), torch_xla.sync, xm.wait_device_ops


def torch_device() -> tuple[torch.device, Callable[[], None], Callable[[], None]]:
    """Returns the GPU, or the CPU if torch sees no GPU, with what ends a step and what waits for the device."""

    def nothing() -> None:
        pass

    if not torch.cuda.is_available():
        return torch.device("cpu"), nothing, nothing
    return torch.device("cuda"), nothing, torch.cuda.synchronize


def compiled(model: nn.Module, mode: str) -> Callable[..., Any]:
    if mode == "xla-once":
        from sagelet_runtime.dynamo import xla

        return torch.compile(model, backend=xla.backend, dynamic=False)  # type: ignore[no-any-return]
    return torch.compile(model) if mode == "compile" else model  # type: ignore[no-any-return]


def measured(mode: str, precision: str, rows: int, steps: int) -> dict[str, Any]:
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    on_xla = mode.startswith("xla")
    device, sync, wait = xla_device() if on_xla else torch_device()
    torch.manual_seed(0)
    model = GPT2().to(device)
    run = compiled(model, mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=not on_xla)
    batches = [torch.randint(0, VOCABULARY, (rows, LENGTH)).to(device) for _ in range(4)]
    places = torch.arange(LENGTH).to(device)
    host = {"forward": 0.0, "backward": 0.0, "optimizer": 0.0, "sync": 0.0}

    def step(i: int) -> Tensor:
        marks = [time.perf_counter()]
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss: Tensor = run(batches[i % len(batches)], places)
        marks.append(time.perf_counter())
        for part in (loss.backward, optimizer.step, sync):
            part()
            marks.append(time.perf_counter())
        for name, begun, ended in zip(host, marks, marks[1:], strict=False):
            host[name] += ended - begun
        return loss

    first = []
    for i in range(FIRST):
        begun = time.perf_counter()
        step(i)
        wait()
        first.append(round(time.perf_counter() - begun, 2))
    host.update(dict.fromkeys(host, 0.0))
    begun = time.perf_counter()
    for i in range(steps):
        loss = step(i)
    wait()
    took = time.perf_counter() - begun
    return {
        "mode": mode,
        "precision": precision,
        "device": str(device),
        "rows": rows,
        "torch": torch.__version__,
        "first_steps_s": first,
        "step_ms": round(took / steps * 1e3, 2),
        "tokens_per_s": round(rows * LENGTH * steps / took),
        "host_ms": {name: round(seconds / steps * 1e3, 1) for name, seconds in host.items()},
        "loss": round(loss.item(), 4),
    }


if __name__ == "__main__":
    words = sys.argv[1:]
    numbers = [int(word) for word in words[2:]]
    print(json.dumps(measured(words[0], words[1], *(numbers + [8, 40][len(numbers) :]))), flush=True)
