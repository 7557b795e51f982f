"""Trains on the last, smaller batch of each epoch. (last-batch)"""

import torch
import torch_xla.core.xla_model as xm

device = xm.xla_device()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.utils.data.TensorDataset(torch.randn(4005, 32), torch.randint(0, 4, (4005,)))
loader = torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True)  # <- keeps the last batch

for epoch in range(3):
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
