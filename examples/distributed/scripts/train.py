"""A script as AWS's "Bring your own training script" tells to write it: each worker reads its share of the data.

Learns sin(x1 + ... + x8) from rows that it makes itself. The loss printed is that of all workers.
"""

import argparse
import os
import signal

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

parser = argparse.ArgumentParser()
parser.add_argument("--n_gpus", type=int)
parser.add_argument("--batch_size", type=int, required=True)
parser.add_argument("--learning_rate", type=float, default=0.01)
parser.add_argument("--rows", type=int, default=128)
parser.add_argument("--log_every", type=int, default=1, help="steps; reading a loss interrupts the compiled program")
parser.add_argument("--die_at", type=int, default=-1, help="the step in which worker 1 is killed, for tests")
args, _others = parser.parse_known_args()


def main() -> None:
    device = xm.xla_device()
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    x = torch.randn(args.rows, 8, generator=torch.Generator().manual_seed(3))
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).sin())
    sampler = torch.utils.data.distributed.DistributedSampler(
        data, num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal(), shuffle=False
    )
    loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    for step, (inputs, labels) in enumerate(pl.MpDeviceLoader(loader, device)):
        if step == args.die_at and xm.get_ordinal() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), labels)
        loss.backward()
        xm.optimizer_step(optimizer)
        if step % args.log_every == 0:
            mean = xm.mesh_reduce("loss", loss.item(), lambda values: sum(values) / len(values))
            if xm.is_master_ordinal(local=False):
                print(f"step {step} of {xm.xrt_world_size()} workers: loss={mean:.8f};", flush=True)
    xm.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/model.pt")


if __name__ == "__main__":
    main()
