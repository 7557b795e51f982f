"""A plain loop on XLA if the job is compiled, and natively on the CPU."""

import json
import os

import step_model
import torch
from torch.utils.data import DataLoader

if os.environ.get("USE_TORCH_XLA") == "1":
    import torch_xla.core.xla_model as xm

    device, end_step = xm.xla_device(), xm.mark_step
else:
    device, end_step = torch.device("cpu"), lambda: None

net = step_model.make().to(device)
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
losses = []
for batch in DataLoader(step_model.rows()):
    batch = {name: value.to(device) for name, value in batch.items()}
    optimizer.zero_grad()
    loss = net(**batch).loss
    loss.backward()
    optimizer.step()
    end_step()
    losses.append(loss.detach())
print("losses=" + json.dumps([loss.item() for loss in losses]))
