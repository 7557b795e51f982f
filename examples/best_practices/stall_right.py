"""The thread that makes the batches says when there are no more. (stall)"""

import queue
import threading

import torch
import torch_xla.core.xla_model as xm

device = xm.xla_device()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = queue.Queue(maxsize=8)


def produce():
    for _ in range(600):
        rows.put((torch.randn(16, 32), torch.randint(0, 4, (16,))))
    rows.put(None)


threading.Thread(target=produce, daemon=True).start()
while (batch := rows.get()) is not None:
    inputs, labels = batch[0].to(device), batch[1].to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    xm.optimizer_step(optimizer, barrier=True)
