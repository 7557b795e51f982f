"""Every collective of xm and torch.distributed once, in one world of two workers; what came out goes to RESULTS."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch.distributed as dist
import torch_xla
import torch_xla.core.functions as xf
import torch_xla.core.xla_model as xm
import torch_xla.distributed.xla_backend
import torch_xla.runtime as xr
from torch import Tensor
from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

from sagelet_runtime.collectives import refusals

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch_xla.device()
found: dict[str, Any] = {}


def put(*values: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def note(name: str, value: Any) -> None:
    found[name] = value.tolist() if isinstance(value, Tensor) else value


def error_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def identity() -> None:
    note("world", [xr.world_size(), xr.global_ordinal(), xr.local_ordinal(), xr.local_process_count()])
    note("counts", [xr.process_count(), xr.process_index(), xr.global_device_count(), xr.host_index()])
    note("old names", [xm.xrt_world_size(), xm.get_ordinal(), xm.get_local_ordinal()])
    note("master", [xm.is_master_ordinal(), xm.is_master_ordinal(local=False)])
    xm.master_print("only the master says this")


def reductions() -> None:
    for kind in ("sum", "mul", "min", "max"):
        note(f"all_reduce {kind}", xm.all_reduce(kind, put(RANK + 2, 5 - RANK)))
        note(f"all_reduce int {kind}", xm.all_reduce(kind, put(RANK + 2, 5 - RANK, dtype=torch.int64)))
    for kind in ("and", "or"):
        note(f"all_reduce int {kind}", xm.all_reduce(kind, put(6 - RANK, 1, dtype=torch.int32)))
        note(f"all_reduce bool {kind}", xm.all_reduce(kind, put(RANK, 1, dtype=torch.bool)))
    note("all_reduce short", xm.all_reduce("sum", put(300, RANK, dtype=torch.int16)))
    note("all_reduce scale", xm.all_reduce("sum", put(RANK, 4), scale=0.5, pin_layout=False))
    note("all_reduce own group", xm.all_reduce("sum", put(RANK), groups=[[0], [1]]))
    note("all_reduce one group", xm.all_reduce("sum", put(RANK), groups=[[0, 1]]))
    note("all_reduce scalar", xm.all_reduce("sum", torch.tensor(1.5, device=DEVICE)))
    kept = put(1.0, 2.0)
    xm.all_reduce("sum", kept)
    note("all_reduce keeps its input", kept)
    pair = [put(RANK), put(1.0, 2.0).to(torch.bfloat16), put(2.0, 1.0).to(torch.float16), put(RANK * 10)]
    same = xm.all_reduce("sum", pair, scale=0.5)
    note("all_reduce list", [tensor.tolist() for tensor in pair])
    note("all_reduce list types", [str(tensor.dtype) for tensor in pair])
    note("all_reduce list is its input", same is pair)
    # 1 + 2^-8 + 2^-8 is a bfloat16, and 1 + 2^-8 is not: a sum in bfloat16 would drop both small terms.
    small = torch.full((), 2.0**-8, device=DEVICE, dtype=torch.bfloat16)
    one = torch.tensor([1.0, 2.0**-7], device=DEVICE, dtype=torch.bfloat16)[RANK]
    note("all_reduce bfloat16", xm.all_reduce("sum", torch.stack([one, small])).float())
    note("all_reduce empty list", xm.all_reduce("sum", []))
    many = [torch.full((1 << 20,), float(index + RANK), device=DEVICE) for index in range(12)]
    xm.all_reduce("sum", many)
    note("all_reduce many buckets", [float(tensor.cpu().unique().item()) for tensor in many])
    again = [torch.full((1 << 20,), 2.0 * index, device=DEVICE) for index in range(12)]
    xm.all_reduce("sum", again)
    note("all_reduce again", [float(tensor.cpu().unique().item()) for tensor in many + again])


def gathers() -> None:
    note("all_gather", xm.all_gather(put(RANK, RANK + 10)))
    note("all_gather dim", xm.all_gather(torch.full((2, 1), float(RANK), device=DEVICE), dim=1))
    note("all_gather bool", xm.all_gather(put(RANK, 1, dtype=torch.bool)))
    note("all_gather groups", xm.all_gather(put(RANK), groups=[[0], [1]]))
    several = xm.all_gather([put(RANK), put(5.0, 6.0)], pin_layout=False)
    note("all_gather list", [tensor.tolist() for tensor in several])
    into = torch.zeros(2, device=DEVICE)
    xm.all_gather(put(RANK + 1), output=into)
    note("all_gather output", into)
    note("all_gather empty", list(xm.all_gather(torch.zeros(0, 3, device=DEVICE)).shape))
    note("reduce_scatter", xm.reduce_scatter("sum", torch.arange(4.0, device=DEVICE) + RANK, 1.0, 0, SIZE))
    wide = torch.arange(4.0, device=DEVICE).reshape(1, 4)
    note("reduce_scatter dim", xm.reduce_scatter("max", wide * (RANK + 1), 0.5, 1, SIZE))
    lists = xm.reduce_scatter("sum", [put(1, 2), put(3, 4)], 1.0, 0, SIZE)
    note("reduce_scatter list", [tensor.tolist() for tensor in lists])
    bucketized = xm.reduce_scatter_bucketized("sum", [put(1, 2), put(3, 4)], 1.0, 0, SIZE)
    note("reduce_scatter bucketized", [tensor.tolist() for tensor in bucketized])
    note("all_to_all", xm.all_to_all(torch.arange(4.0, device=DEVICE) + 10 * RANK, 0, 0, SIZE))
    square = torch.arange(4.0, device=DEVICE).reshape(2, 2) + 10 * RANK
    note("all_to_all dims", xm.all_to_all(square, 0, 1, SIZE))
    note("permute", xm.collective_permute(put(RANK + 1), pairs=[[0, 1], [1, 0]]))
    note("permute to none", xm.collective_permute(put(RANK + 1), pairs=[[0, 1]]))
    ones = [put(RANK), put(RANK, dtype=torch.int64), put(RANK, 1 - RANK, dtype=torch.bool)]
    xm.collective_broadcast(ones, root_ordinal=1)
    note("broadcast", [tensor.tolist() for tensor in ones])
    torch.manual_seed(RANK)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to(DEVICE)
    xm.broadcast_master_param(model)
    note("broadcast_master_param", [value.flatten().tolist() for value in model.state_dict().values()])


def objects() -> None:
    note("rendezvous", [part.decode() for part in xm.rendezvous("here", b"x" * (RANK + 1))])
    note("rendezvous without payload", [part.decode() for part in xm.rendezvous("bare")])
    note("mesh_reduce", xm.mesh_reduce("loss", 0.5 + RANK, lambda values: sum(values) / len(values)))
    note("mesh_reduce numpy", float(xm.mesh_reduce("a", numpy.float64(RANK), numpy.mean)))
    note(
        "mesh_reduce tensor", xm.mesh_reduce("t", put(RANK + 1), lambda parts: sum(part.sum().item() for part in parts))
    )
    said: list[float] = []
    xm.add_step_closure(lambda value: said.append(value.item()), args=(put(3.0).sum(),))
    note("closure before the step", list(said))
    xm.mark_step()
    note("closure after the step", list(said))
    xm.do_on_ordinals(lambda: note("on ordinal", RANK), ordinals=[1])


def saving(directory: str) -> None:
    """The job's image is one of torch_xla 1.x, where xm.save returned when all had saved."""
    path = f"{directory}/master.pt"
    if RANK == 0:
        time.sleep(1)
    xm.save({"rank": RANK, "weights": put(RANK, 7)}, path, global_master=True)
    read = torch.load(path)
    note("save", [read["rank"], str(read["weights"].device)])


def differentiable() -> None:
    x = put(1.0, 2.0).requires_grad_()
    (xf.all_reduce("sum", x * (RANK + 1)) * put(3.0, 4.0)).sum().backward()
    note("differentiable all_reduce", x.grad)
    x = put(1.0, 2.0).requires_grad_()
    (xf.all_gather(x * (RANK + 1)) * put(1.0, 2.0, 3.0, 4.0)).sum().backward()
    note("differentiable all_gather", x.grad)


def distributed() -> None:
    dist.init_process_group("xla")
    note("dist", [dist.get_rank(), dist.get_world_size(), dist.get_backend()])
    value = put(RANK + 1)
    dist.all_reduce(value)
    note("dist.all_reduce", value)
    value = put(RANK + 1)
    dist.all_reduce(value, op=dist.ReduceOp.AVG)
    note("dist.all_reduce average", value)
    parts = [torch.zeros(1, device=DEVICE) for _ in range(SIZE)]
    dist.all_gather(parts, put(RANK + 1))
    note("dist.all_gather", [part.tolist() for part in parts])
    into = torch.zeros(2, device=DEVICE)
    dist.all_gather_into_tensor(into, put(RANK + 1))
    note("dist.all_gather_into_tensor", into)
    value = put(RANK + 1)
    dist.broadcast(value, src=1)
    note("dist.broadcast", value)
    value = put(RANK + 1)
    dist.reduce(value, dst=0)
    note("dist.reduce", value)
    out = torch.zeros(1, device=DEVICE)
    dist.reduce_scatter_tensor(out, put(1, 2) * (RANK + 1))
    note("dist.reduce_scatter_tensor", out)
    dist.reduce_scatter(out, [put(1), put(2)])
    note("dist.reduce_scatter", out)
    dist.all_to_all_single(into, put(10 * RANK, 10 * RANK + 1))
    note("dist.all_to_all_single", into)
    outs = [torch.zeros(1, device=DEVICE) for _ in range(SIZE)]
    dist.all_to_all(outs, [put(10 * RANK), put(10 * RANK + 1)])
    note("dist.all_to_all", [part.tolist() for part in outs])
    gathered = [torch.zeros(1, device=DEVICE) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(put(RANK + 5), gathered)
    note("dist.gather", [part.tolist() for part in gathered] if gathered else None)
    dist.scatter(out, [put(8), put(9)] if RANK == 0 else None)
    note("dist.scatter", out)
    if RANK == 0:
        dist.send(put(42), dst=1)
    else:
        dist.recv(out, src=0)
        note("dist.recv", out)
    everything: list[Any] = [None] * SIZE
    dist.all_gather_object(everything, {"rank": RANK})
    note("dist.all_gather_object", everything)
    shared = [RANK, "text"]
    dist.broadcast_object_list(shared, src=1)
    note("dist.broadcast_object_list", shared)
    dist.barrier()
    alone = [dist.new_group([rank]) for rank in range(SIZE)][RANK]
    value = put(RANK + 1)
    dist.all_reduce(value, group=alone)
    note("dist.new_group", value)


def refused_with(name: str, value: str) -> None:
    """As when torch_xla is imported where the variable is set."""
    os.environ[name] = value
    try:
        refusals.install(torch_xla)
    finally:
        del os.environ[name]


def refused() -> None:
    calls: dict[str, Callable[[], Any]] = {
        "spmd": lambda: xr.use_spmd(),
        "native": lambda: torch_xla._XLAC._xla_all_reduce("sum", put(1), 1.0, [], True),
        "functional": lambda: torch.ops._c10d_functional.all_reduce(put(1), "sum", ""),
        "fsdp": lambda: __import__("torch_xla.distributed.fsdp", fromlist=["x"]).XlaFullyShardedDataParallel(
            torch.nn.Linear(1, 1)
        ),
        "zero": lambda: ZeroRedundancyOptimizer([], torch.optim.SGD),
        "send": lambda: xm.send(put(1), 0),
        "recv": lambda: xm.recv(put(1), 0),
        "spmd variable": lambda: refused_with("XLA_USE_SPMD", "1"),
        "several devices": lambda: refused_with("CPU_NUM_DEVICES", "2"),
        "split sizes": lambda: dist.all_to_all_single(put(1, 2), put(1, 2), [1, 1], [1, 1]),
        "partial groups": lambda: xm.all_reduce("sum", put(1), groups=[[0]]),
        "overlapping groups": lambda: xm.all_reduce("sum", put(1), groups=[[0, 1], [1]]),
        "reduce type": lambda: xm.all_reduce("average", put(1)),
        "float and": lambda: xm.all_reduce("and", put(1)),
        "shards": lambda: xm.reduce_scatter("sum", put(1, 2, 3), 1.0, 0, SIZE),
        "shard count": lambda: xm.reduce_scatter("sum", put(1, 2, 3), 1.0, 0, 3),
        "disagree": lambda: xm.all_reduce("sum", put(*([1.0] * (RANK + 1)))),
        "disagree on tags": lambda: xm.rendezvous(f"tag {RANK}"),
    }
    found["errors"] = {name: error_of(call) for name, call in calls.items()}
    note("after errors", xm.all_reduce("sum", put(1)))


def main() -> None:
    from sagelet_runtime.collectives import counters

    identity()
    before = counters.figures()
    xm.all_reduce("sum", [put(1.0, 2.0), put(3.0).to(torch.bfloat16)])
    after = counters.figures()
    note("figures", [after.count - before.count, after.bytes - before.bytes, after.seconds > before.seconds])
    reductions()
    gathers()
    objects()
    saving(os.environ["RESULTS"])
    differentiable()
    distributed()
    refused()
    with open(f"{os.environ['RESULTS']}/rank-{RANK}.json", "w") as file:
        json.dump(found, file)


main()
