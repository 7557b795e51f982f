"""The training of examples/distributed, natively, over SageMaker's data parallel library by its new and old names."""

import argparse
import os

import smdistributed.dataparallel.torch.distributed as smddp
import smdistributed.dataparallel.torch.torch_smddp  # noqa: F401 - makes the backend known
import torch
import torch.distributed as dist
from smdistributed.dataparallel.torch.parallel.distributed import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, required=True)
args, _others = parser.parse_known_args()

dist.init_process_group(backend="smddp")
smddp.init_process_group()
rank, world = dist.get_rank(), smddp.get_world_size()
print(f"backend={dist.get_backend()} local_rank={smddp.get_local_rank()} of {world}", flush=True)
torch.manual_seed(7)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
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
    dist.all_reduce(total)
    if rank == 0:
        print(f"step {step} of {world} workers: loss={total.item() / world:.8f};", flush=True)
if rank == 0:
    torch.save(model.module.state_dict(), os.environ["SM_MODEL_DIR"] + "/model.pt")
dist.destroy_process_group()
