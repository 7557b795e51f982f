"""Trains a model with dropout, with and without gradient checkpoints. Prints the losses and compilations of each."""

import json

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from torch.utils.checkpoint import checkpoint


def trained(ways: dict[str, bool] | None) -> tuple[list[float], int]:
    torch.manual_seed(0)
    before = met.counter_value("UncachedCompile") or 0
    device = torch_xla.device()
    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.GELU()).to(device)
    head = torch.nn.Linear(16, 1).to(device)
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.05)
    inputs = torch.randn(8, 16).to(device).requires_grad_()
    losses = []
    for step in range(6):
        # torch_xla makes the random numbers of a step from the last state that was set.
        xm.set_rng_state(step + 7)
        optimizer.zero_grad()
        hidden = layer(inputs) if ways is None else checkpoint(layer, inputs, **ways)
        loss = (head(hidden) - 1).square().mean()
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        losses.append(loss.item())
    return losses, (met.counter_value("UncachedCompile") or 0) - before


print(json.dumps([trained(None), trained({"use_reentrant": True}), trained({"use_reentrant": False})]))
