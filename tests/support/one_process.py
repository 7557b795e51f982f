"""The reference for scripts of several workers: the same training natively in this process, at the summed batch."""

import torch


def regression(batch: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Does what `examples/distributed/scripts/train.py` does. Returns the loss of each step and the final weights."""
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
