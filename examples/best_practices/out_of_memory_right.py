"""Asks for as much memory as there is. (out-of-memory)"""

import torch
import torch_xla.core.xla_model as xm

device = xm.xla_device()
batch = torch.zeros(2**4, 2**12)
model = torch.nn.Linear(2**12, 4).to(device)
model(batch.to(device)).sum().backward()
xm.mark_step()
