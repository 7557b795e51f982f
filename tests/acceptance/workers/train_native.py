"""The training of examples/distributed without torch_xla: PyTorch's own DDP over whatever workers there are."""

import argparse
import os
import sys

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, required=True)
args, _others = parser.parse_known_args()

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
plain, rank, world = model, 0, 1
if "RANK" in os.environ:
    dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")
    model, rank, world = torch.nn.parallel.DistributedDataParallel(model), dist.get_rank(), dist.get_world_size()
print(f"rank {rank}, local rank {os.environ.get('LOCAL_RANK')} of {world}", flush=True)
x = torch.randn(128, 8, generator=torch.Generator().manual_seed(3))
y = x.sum(1, keepdim=True).sin()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
whole = args.batch_size * world
for step in range(len(x) // whole):
    mine = slice(step * whole + rank, (step + 1) * whole, world)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x[mine]), y[mine])
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    if world > 1:
        dist.all_reduce(total)
    if rank == 0:
        print(f"step {step} of {world} workers: loss={total.item() / world:.8f};", flush=True)
if rank == 0:
    print(f"device={next(model.parameters()).device} torch_xla={'torch_xla' in sys.modules}")
    torch.save(plain.state_dict(), os.environ["SM_MODEL_DIR"] + "/model.pt")
if world > 1:
    dist.destroy_process_group()
