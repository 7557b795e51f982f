"""Saves with torch.save what is loaded without torch_xla. (unreadable-checkpoint)"""

import subprocess
import sys

import torch
import torch_xla.core.xla_model as xm

model = torch.nn.Linear(4, 4).to(xm.xla_device())
torch.save(model.state_dict(), "model.pt")
# As a host that serves the model, or another job, without torch_xla.
subprocess.run([sys.executable, "-c", "import torch; print(torch.load('model.pt'))"], check=True)  # <- fails
