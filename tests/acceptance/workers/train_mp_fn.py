"""The same training as examples/distributed, by a script that only defines `_mp_fn`: AWS's launcher calls it."""

import argparse
import os

import torch
import torch_xla.core.xla_model as xm


def _mp_fn(index: int) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, required=True)
    args, _others = parser.parse_known_args()
    device = xm.xla_device()
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    x = torch.randn(128, 8, generator=torch.Generator().manual_seed(3))
    y = x.sum(1, keepdim=True).sin()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    world, whole = xm.xrt_world_size(), args.batch_size * xm.xrt_world_size()
    for step in range(len(x) // whole):
        mine = slice(step * whole + index, (step + 1) * whole, world)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x[mine].to(device)), y[mine].to(device))
        loss.backward()
        xm.optimizer_step(optimizer)
        xm.mark_step()
        mean = xm.mesh_reduce("loss", loss.item(), lambda values: sum(values) / len(values))
        if index == 0:
            print(f"step {step} of {world} workers: loss={mean:.8f};", flush=True)
    xm.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/model.pt")
