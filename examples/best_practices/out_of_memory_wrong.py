"""Asks for more memory than there is. (out-of-memory)"""

import torch
import torch_xla.core.xla_model as xm

device = xm.xla_device()
batch = torch.zeros(2**22, 2**22)  # <- 64 TiB
model = torch.nn.Linear(2**22, 4).to(device)
model(batch.to(device)).sum().backward()
