"""The loop of Accelerate's documentation, with its clipping."""

import json

import step_model
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
net = step_model.make()
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
net, optimizer, loader = accelerator.prepare(net, optimizer, DataLoader(step_model.rows()))
losses = []
for batch in loader:
    optimizer.zero_grad()
    loss = net(**batch).loss
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.detach())
print("losses=" + json.dumps([loss.item() for loss in losses]))
