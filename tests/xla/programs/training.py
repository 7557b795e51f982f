"""The ways in which scripts of the seeds' kind train, each from one seed; losses and weights go to RESULTS.

Alone it takes the whole batch; one of N workers takes the N-th part of it. How it is started is its first argument.
"""

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_backend
import torch_xla.distributed.xla_multiprocessing as xmp
from torch import Tensor, nn
from torch_xla.amp import GradScaler, autocast, syncfree

BATCH, STEPS = 32, 6


def data() -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(BATCH * STEPS, 20, generator=generator)
    return torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long() + (x[:, 0] > 1).long())


def loader(split: int = 1) -> Any:
    """This worker's share, in batches of BATCH / workers / split."""
    sampler = None
    if xm.xrt_world_size() > 1:
        sampler = torch.utils.data.distributed.DistributedSampler(
            data(), num_replicas=xm.xrt_world_size(), rank=xm.get_ordinal(), shuffle=False
        )
    size = BATCH // xm.xrt_world_size() // split
    return torch.utils.data.DataLoader(data(), batch_size=size, sampler=sampler, drop_last=True)


def model_on(device: torch.device) -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3)).to(device)


def mean_of_workers(loss: Tensor) -> float:
    return float(xm.mesh_reduce("loss", loss.item(), lambda values: sum(values) / len(values)))


def outcome(model: nn.Module, losses: list[float], **more: Any) -> dict[str, Any]:
    weights = {
        name.removeprefix("module."): value.cpu().flatten().tolist() for name, value in model.state_dict().items()
    }
    return {"losses": losses, "weights": weights, **more}


def train(
    model: nn.Module, batches: Iterator[Any], optimizer: Any, update: Callable[[Any], object], steps: int = STEPS
) -> list[float]:
    losses = []
    for _, (x, y) in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        update(optimizer)
        losses.append(mean_of_workers(loss))
    return losses


def optimizer_step() -> dict[str, Any]:
    """xm.optimizer_step, SGD with momentum, MpDeviceLoader."""
    device = xm.xla_device()
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = [int(x.shape[0]) for x, _ in loader()]
    losses = train(model, iter(pl.MpDeviceLoader(loader(), device)), optimizer, xm.optimizer_step)
    return outcome(model, losses, batches=seen)


def fetched_gradients() -> dict[str, Any]:
    """The documents' own way: _fetch_gradients, all_reduce with a scale, a plain step; ParallelLoader."""
    device = xm.xla_device()
    model = model_on(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def update(_: Any) -> None:
        gradients = xm._fetch_gradients(optimizer)
        xm.all_reduce("sum", gradients, scale=1.0 / xm.xrt_world_size())
        optimizer.step()

    batches = pl.ParallelLoader(loader(), [device]).per_device_loader(device)
    return outcome(model, train(model, batches, optimizer, update))


def clipped() -> dict[str, Any]:
    """reduce_gradients, then clipping of the reduced gradients."""
    device = xm.xla_device()
    model = model_on(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    norms: list[Tensor] = []

    def update(_: Any) -> None:
        xm.reduce_gradients(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.05))
        optimizer.step()

    losses = train(model, iter(pl.MpDeviceLoader(loader(), device)), optimizer, update)
    return outcome(model, losses, norms=[norm.item() for norm in norms])


def accumulated() -> dict[str, Any]:
    """Two backward passes to an update."""
    device = xm.xla_device()
    model = model_on(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for number, (x, y) in enumerate(pl.MpDeviceLoader(loader(split=2), device)):
        loss = nn.functional.cross_entropy(model(x), y) / 2
        loss.backward()
        losses.append(mean_of_workers(loss))
        if number % 2:
            xm.optimizer_step(optimizer)
            optimizer.zero_grad()
    return outcome(model, losses)


def scaled_mixed_precision() -> dict[str, Any]:
    """torch_xla.amp: autocast, GradScaler, and an optimizer without syncs."""
    device = xm.xla_device()
    model = model_on(device)
    optimizer = syncfree.AdamW(model.parameters(), lr=1e-2)
    scaler = GradScaler()
    losses = []
    for x, y in pl.MpDeviceLoader(loader(), device):
        optimizer.zero_grad()
        with autocast(device):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size())
        scaler.step(optimizer)
        scaler.update()
        losses.append(mean_of_workers(loss))
    return outcome(model, losses)


def resumed() -> dict[str, Any]:
    """Half of the steps, a checkpoint, a new model and optimizer from it, and the other half."""
    device = xm.xla_device()
    path = os.path.join(os.environ["RESULTS"], f"checkpoint-{xm.xrt_world_size()}.pt")
    model = model_on(device)
    optimizer = syncfree.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batches = iter(pl.MpDeviceLoader(loader(), device))
    losses = train(model, batches, optimizer, xm.optimizer_step, STEPS // 2)
    xm.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    xm.rendezvous("saved")
    kept = torch.load(path)
    torch.manual_seed(99)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3))
    model.load_state_dict(kept["model"])
    model = model.to(device)
    optimizer = syncfree.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(kept["optimizer"])
    losses += train(model, batches, optimizer, xm.optimizer_step)
    return outcome(model, losses)


def wrapped() -> dict[str, Any]:
    """DistributedDataParallel with several buckets, on torch.distributed's backend 'xla'."""
    import torch.distributed as dist

    device = xm.xla_device()
    model = model_on(device)
    if xm.xrt_world_size() > 1:
        dist.init_process_group("xla", init_method="xla://")
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    gradients: list[list[float]] = []
    executions: list[int] = []

    def update(_: Any) -> None:
        if not gradients:
            gradients.extend(parameter.grad.cpu().flatten().tolist() for parameter in model.parameters())
        executions.append(executed())
        optimizer.step()

    losses = train(model, iter(pl.MpDeviceLoader(loader(), device)), optimizer, update)
    cuts = [later - earlier for earlier, later in itertools.pairwise(executions)]
    return outcome(model, losses, gradients=gradients, cuts=cuts)


def executed() -> int:
    import torch_xla.debug.metrics as met

    return int(met.metric_data("ExecuteTime")[0])


def accelerated() -> dict[str, Any]:
    """fp16 as SMTC scripts ask for it, AdamW."""
    return with_accelerate("fp16", lambda parameters: torch.optim.AdamW(parameters, lr=1e-2))


def accelerated_in_float32() -> dict[str, Any]:
    return with_accelerate("no", lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))


def with_accelerate(precision: str, make: Callable[[Any], Any]) -> dict[str, Any]:
    """accelerate's own loop, two backward passes to an update."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state()
    accelerator = Accelerator(mixed_precision=precision, gradient_accumulation_steps=2)
    model = model_on(torch.device("cpu"))
    optimizer = make(model.parameters())
    share = torch.utils.data.DataLoader(data(), batch_size=BATCH // accelerator.num_processes // 2, drop_last=True)
    model, optimizer, batches = accelerator.prepare(model, optimizer, share)
    losses = []
    for x, y in batches:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
    return outcome(model, losses)


WAYS = {
    way.__name__: way
    for way in (
        optimizer_step,
        fetched_gradients,
        clipped,
        accumulated,
        scaled_mixed_precision,
        resumed,
        wrapped,
        accelerated,
        accelerated_in_float32,
    )
}


def _mp_fn(index: int, names: str) -> None:
    found = {name: WAYS[name]() for name in names.split(",")}
    identity = [index, xm.get_ordinal(), xm.xrt_world_size(), xm.get_local_ordinal()]
    xm.master_print("trained")
    directory = os.environ["RESULTS"]
    with open(os.path.join(directory, f"rank-{xm.get_ordinal()}.json"), "w") as file:
        json.dump({"identity": identity, **found}, file)


def _inside(index: int, argument: str) -> None:
    with open(os.path.join(os.environ["RESULTS"], f"inside-{os.environ['RANK']}.json"), "w") as file:
        json.dump([index, argument, os.getpid()], file)


if __name__ == "__main__":
    start, names = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ",".join(WAYS)
    if start == "spawn":
        xmp.spawn(_mp_fn, args=(names,), nprocs=int(sys.argv[3]) if len(sys.argv) > 3 else None)
    elif start == "launch":
        torch_xla.launch(_mp_fn, args=(names,))
        # In a started worker: this very process, whatever nprocs says.
        xmp.spawn(_inside, args=(str(os.getpid()),), nprocs=8)
    else:
        _mp_fn(int(os.environ.get("RANK", "0")), names)
