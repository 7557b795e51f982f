"""Prepares each row while the step waits for it. (input-bound)"""

import time

import torch
import torch_xla.core.xla_model as xm


def prepare(row):
    """Stands for what takes long: decoding an image, say."""
    time.sleep(0.001)
    return row / 2


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = torch.randn(1600, 32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return prepare(self.rows[index])


device = xm.xla_device()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for batch in torch.utils.data.DataLoader(Rows(), batch_size=16, drop_last=True):  # <- waits for 16 rows
    rows = batch.to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(rows), rows)
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
