"""Stands in for Hugging Face's run_clm.py, which downloads a model and a dataset: same options, same log."""

import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--model_type", required=True)
parser.add_argument("--learning_rate", type=float, required=True)
parser.add_argument("--per_device_train_batch_size", type=int, required=True)
args, _others = parser.parse_known_args()

device = torch.device("cpu")
if os.environ.get("PJRT_DEVICE"):
    import torch_xla

    device = torch_xla.device()

print(f"device_type={device.type} batch={args.per_device_train_batch_size}")
torch.manual_seed(7)
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
inputs = torch.ones(args.per_device_train_batch_size, 4, device=device)
for epoch in (1.0, 2.0):
    optimizer.zero_grad()
    loss = model(inputs).pow(2).mean()
    loss.backward()
    optimizer.step()
    print({"loss": round(loss.item(), 4), "learning_rate": args.learning_rate, "epoch": epoch})
print({"train_runtime": 1.5, "train_samples_per_second": 20.0, "train_steps_per_second": 2.0, "train_loss": 0.5})
torch.save({name: value.cpu() for name, value in model.state_dict().items()}, os.environ["SM_MODEL_DIR"] + "/model.pt")
