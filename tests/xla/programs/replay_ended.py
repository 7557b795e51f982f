"""Trains on XLA tensors with a torch_xla that does not run programs as it should. Prints what each case has as JSON.

Each case has the weights and moments at its end, the report's figures, and the error of the loop. Run it with a small
XLA_COMPILATION_CACHE_SIZE: torch_xla then drops programs.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from sagelet_runtime.replay import clipping, optimizers, programs

optimizers.install_adam(sys.modules[optimizers.ADAM])
clipping.install(nn.utils.clip_grad)
clip = nn.utils.clip_grad.clip_grad_norm_
import torch_xla  # noqa: E402 - after the hooks, as in a job
from torch_xla.core import xla_builder  # noqa: E402

DEVICE = torch_xla.device()
RUN = torch_xla._XLAC._run_cached_graph


def trained(between: Callable[[int], None] = lambda _at: None, steps: int = 6) -> dict[str, Any]:
    """Trains, and calls `between` before each one's clipping."""
    programs.replays = programs.Replays()
    programs.lacking.cache_clear()
    torch.manual_seed(0)
    parameters = list(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(DEVICE).parameters())
    optimizer = torch.optim.AdamW(parameters, lr=0.05)
    error = ""
    try:
        for at in range(steps):
            optimizer.zero_grad()
            sum((one * (at + 1)).sin().sum() for one in parameters).backward()
            between(at)
            clip(parameters, 0.5)
            optimizer.step()
            torch_xla.sync()
    except (AttributeError, ImportError, RuntimeError, TypeError) as raised:
        error = f"{type(raised).__name__}: {raised}".splitlines()[0]
    moments = [one for state in optimizer.state.values() for one in state.values()]
    numbers = [number for one in (*parameters, *moments) for number in one.detach().cpu().flatten().tolist()]
    return {"numbers": numbers, "figures": programs.replays.figures(), "error": error}


def fill(at: int) -> None:
    """Fills torch_xla's cache with other programs after three steps."""
    if at == 3:
        for size in range(2, 12):
            pending = torch.ones(size, device=DEVICE).add(3)
            torch_xla.sync()
            assert pending.shape == (size,)


def lazy() -> dict[str, Any]:
    can_replay, programs.can_replay = programs.can_replay, lambda _parameters: False
    try:
        return trained()
    finally:
        programs.can_replay = can_replay


def without_placeholders() -> dict[str, Any]:
    placeholder = xla_builder.create_placeholder_tensor
    del xla_builder.create_placeholder_tensor
    try:
        return trained()
    finally:
        xla_builder.create_placeholder_tensor = placeholder


def with_run(run: Callable[..., Any]) -> dict[str, Any]:
    torch_xla._XLAC._run_cached_graph = run
    try:
        return trained()
    finally:
        torch_xla._XLAC._run_cached_graph = RUN


def of_another_version(_program: bytes) -> None:
    """Takes no inputs. Python itself raises the TypeError."""


def failed(_program: bytes, _inputs: Any) -> None:
    raise RuntimeError("the script's own computation failed")


print(
    json.dumps(
        {
            "untrained": trained(steps=0),
            "lazy": lazy(),
            "dropped": trained(fill),
            "no placeholders": without_placeholders(),
            "other arguments": with_run(of_another_version),
            "failed work": with_run(failed),
        }
    )
)
