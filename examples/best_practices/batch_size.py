"""One script, native and compiled, with batch size and learning rate as asked. (batch-size) (learning-rate)"""

import argparse
import os

import torch

COMPILED = os.environ.get("SM_TRAINING_COMPILER_CONFIGURED") == "1"
if COMPILED:
    import torch_xla.core.xla_model as xm

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--learning_rate", type=float, default=0.1)
options = parser.parse_args()

device = xm.xla_device() if COMPILED else torch.device("cpu")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate)
rows = torch.utils.data.TensorDataset(torch.randn(16000, 32), torch.randint(0, 4, (16000,)))

for inputs, labels in torch.utils.data.DataLoader(rows, batch_size=options.batch_size, drop_last=True):
    inputs, labels = inputs.to(device), labels.to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    if COMPILED:
        xm.mark_step()
