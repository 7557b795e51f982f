"""What the scripts of several workers compute, natively in this process and at the summed batch: the reference."""

from typing import Any

import torch


def regression(batch: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    """`acceptance/workers/train_xla.py`: the loss of each step and the final weights."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    x = torch.randn(128, 8, generator=torch.Generator().manual_seed(3))
    y = x.sum(1, keepdim=True).sin()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(len(x) // batch):
        part = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, dict(model.state_dict())


def notebook(batch: int, rate: float) -> tuple[float, dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """`acceptance/notebooks/scripts/run_clm.py`: the last loss, the first and the final weights."""
    torch.manual_seed(7)
    model = torch.nn.Linear(4, 1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs = torch.randn(batch, 4, generator=torch.Generator().manual_seed(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss: Any = None
    for _epoch in range(2):
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    return loss.item(), before, dict(model.state_dict())
