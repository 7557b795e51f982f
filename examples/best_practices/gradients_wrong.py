"""Averages the loss over all workers, but no gradients; run it on several GPUs. (gradients-not-reduced)"""

import torch
import torch_xla.core.xla_model as xm

device = xm.xla_device()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(xm.get_ordinal())

for step in range(600):
    inputs, labels = torch.randn(16, 32).to(device), torch.randint(0, 4, (16,)).to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()  # <- its own model
    xm.mark_step()
    if step % 50 == 0:
        mean = xm.all_reduce("sum", loss.detach(), scale=1.0 / xm.xrt_world_size())
        xm.master_print(f"step {step} loss {mean:.4f}")
