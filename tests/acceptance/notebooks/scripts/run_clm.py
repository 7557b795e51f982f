"""Stands in for Hugging Face's run_clm.py, which downloads a model and a dataset: same options, same log.

Trains on all workers of the job, natively with DDP or compiled with torch_xla; prints the loss of the whole batch.
"""

import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--model_type", required=True)
parser.add_argument("--learning_rate", type=float, required=True)
parser.add_argument("--per_device_train_batch_size", type=int, required=True)
args, _others = parser.parse_known_args()

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.manual_seed(7)
model = torch.nn.Linear(4, 1)
data = torch.randn(args.per_device_train_batch_size * world, 4, generator=torch.Generator().manual_seed(3))
compiled = bool(os.environ.get("PJRT_DEVICE"))
if compiled:
    import torch_xla.core.xla_model as xm

    device = xm.xla_device()
    model = model.to(device)
else:
    device = torch.device("cpu")
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)

optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
inputs = data[rank::world].to(device)
if rank == 0:
    print(f"device_type={device.type} batch={args.per_device_train_batch_size} workers={world}")
for epoch in (1.0, 2.0):
    optimizer.zero_grad()
    loss = model(inputs).pow(2).mean()
    loss.backward()
    if compiled:
        xm.optimizer_step(optimizer)
        mean = xm.mesh_reduce("loss", loss.item(), lambda values: sum(values) / len(values))
    else:
        optimizer.step()
        torch.distributed.all_reduce(loss.data)
        mean = loss.item() / world
    if rank == 0:
        print({"loss": round(mean, 4), "learning_rate": args.learning_rate, "epoch": epoch})
if rank == 0:
    print({"train_runtime": 1.5, "train_samples_per_second": 20.0, "train_steps_per_second": 2.0, "train_loss": 0.5})
    weights = {name.removeprefix("module."): value.cpu() for name, value in model.state_dict().items()}
    torch.save(weights, os.environ["SM_MODEL_DIR"] + "/model.pt")
