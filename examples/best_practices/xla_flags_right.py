"""Asks XLA for a flag that it has. (compiler-fault)"""

import os

os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=false"

import torch
import torch_xla.core.xla_model as xm

device = xm.xla_device()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(600):
    inputs, labels = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
