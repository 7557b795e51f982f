"""torch_xla.core.xla_model: what `uncompiled` does not put here itself."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import torch

from sagelet_runtime.torch_xla import uncompiled
from sagelet_runtime.torch_xla import uncompiled_calls as calls

from .missing import missing

REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX = "sum", "mul", "and", "or", "min", "max"
_ON_ORDINALS = "torch_xla.core.xla_model.do_on_ordinals"

__getattr__ = missing("torch_xla.core.xla_model")


def is_xla_tensor(tensor: torch.Tensor) -> bool:
    """Returns False for each tensor that this job can make."""
    return bool(tensor.device.type == "xla")


def own_devices() -> list[str]:
    """Returns this worker's only device."""
    return [str(uncompiled.device(torch))]


def xla_real_devices(devices: Sequence[Any] | None = None) -> list[str]:
    """Returns names as `CPU:0` or `CUDA:1`."""
    found = [torch.device(name) for name in devices or own_devices()]
    return [f"{one.type.upper()}:{one.index or 0}" for one in found]


def xla_device_kind(device: Any = None) -> str:
    chosen = torch.device(device or uncompiled.device(torch))
    return str(torch.cuda.get_device_name(chosen)) if chosen.type == "cuda" else chosen.type


def master_print(*args: Any, fd: TextIO = sys.stdout, local: bool = False, flush: bool = False) -> None:
    if (uncompiled.local_rank() if local else calls.rank()) == 0:
        print(*args, file=fd, flush=flush)


def unlazy(tensors: Sequence[torch.Tensor]) -> None:
    """Waits for the device. Plain tensors have their values, except on a GPU that still computes."""
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.synchronize()


def set_replication(device: Any, devices: Sequence[Any] | None) -> None:
    """Does nothing: each worker has one device."""


class RateTracker:
    """Counts items a second, smoothed over its own reports."""

    def __init__(self, smooth_factor: float | None = None) -> None:
        given = os.environ.get("RATE_TRACKER_SMOOTHING", "0.4")
        self._smooth_factor = float(given) if smooth_factor is None else smooth_factor
        self._start = self._last = time.time()
        self._count = self._total = 0.0
        self._rate: float | None = None

    def add(self, count: float) -> None:
        self._count += count

    def rate(self) -> float:
        now = time.time()
        passed = now - self._last
        if passed <= 0:
            return 0.0
        current = self._count / passed
        share = self._smooth_factor
        self._rate = current if self._rate is None else (1 - share) * current + share * self._rate
        self._total += self._count
        self._count, self._last = 0.0, now
        return self._rate

    def global_rate(self) -> float:
        passed = time.time() - self._start
        return (self._total + self._count) / passed if passed > 0 else 0.0


def all_reduce_bucketized_gradients(
    gradients: Sequence[torch.Tensor],
    scale: float,
    groups: calls.Groups,
    pin_layout: bool,
    bucket_cap_mb: int = 0,  # noqa: ARG001 - part of the name's contract
) -> None:
    calls.all_reduce(REDUCE_SUM, list(gradients), scale=scale, groups=groups, pin_layout=pin_layout)


def reduce_gradients(optimizer: torch.optim.Optimizer, groups: calls.Groups = None, pin_layout: bool = True) -> None:
    """Averages the gradients over the workers, as torch_xla does: over all of them, whatever `groups` are."""
    count = calls.world_size()
    if count > 1:
        parameters = (one for group in optimizer.param_groups for one in group["params"])
        gradients = [one.grad for one in parameters if one.grad is not None]
        calls.all_reduce(REDUCE_SUM, gradients, scale=1.0 / count, groups=groups, pin_layout=pin_layout)


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    barrier: bool = False,  # noqa: ARG001 - part of the name's contract
    optimizer_args: dict[str, Any] | None = None,
    groups: calls.Groups = None,
    pin_layout: bool = True,
) -> Any:
    reduce_gradients(optimizer, groups=groups, pin_layout=pin_layout)
    return optimizer.step(**(optimizer_args or {}))


def broadcast_master_param(model: torch.nn.Module) -> None:
    calls.collective_broadcast([*model.parameters(), *model.buffers()])


def send_cpu_data_to_device(datas: Any, device: Any, input_sharding: Any = None) -> Any:
    if input_sharding is not None:
        raise NotImplementedError("input_sharding needs XLA, and this job has no torch_xla")
    return uncompiled.moved([datas] if isinstance(datas, torch.Tensor) else datas, device)


def do_on_ordinals(target: Callable[..., Any], data: Any = (), ordinals: Sequence[int] | set[int] | int = (0,)) -> Any:
    """Calls `target` in these workers, with the tensors of `data` on the CPU. All workers wait for them."""
    chosen = (ordinals,) if isinstance(ordinals, int) else ordinals
    result = target(*uncompiled.moved(data, "cpu")) if calls.rank() in chosen else None
    calls.rendezvous(_ON_ORDINALS)
    return result


def set_rng_state(seed: int, device: Any = None) -> None:
    """Seeds the generator of the worker's device."""
    if torch.device(device or uncompiled.device(torch)).type == "cuda":
        torch.cuda.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def get_rng_state(device: Any = None) -> int:
    """Returns the seed of the generator of the worker's device."""
    on_gpu = torch.device(device or uncompiled.device(torch)).type == "cuda"
    return int(torch.cuda.initial_seed() if on_gpu else torch.initial_seed())


@contextmanager
def fork_rng(device: Any = None, enabled: bool = True) -> Iterator[None]:
    """Puts the device's generator back at the end."""
    chosen = torch.device(device or uncompiled.device(torch))
    with torch.random.fork_rng([chosen] if chosen.type == "cuda" else [], enabled=enabled):
        yield


def get_memory_info(device: Any = None) -> dict[str, int]:
    """Returns bytes: of the GPU, or of this process and the machine."""
    chosen = torch.device(device or uncompiled.device(torch))
    if chosen.type == "cuda":
        free, limit = torch.cuda.mem_get_info(chosen)
        used, peak = limit - free, torch.cuda.max_memory_reserved(chosen)
    else:
        page = os.sysconf("SC_PAGE_SIZE")
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[1]) * page
        limit = os.sysconf("SC_PHYS_PAGES") * page
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"bytes_used": used, "bytes_limit": limit, "peak_bytes_used": peak}


def optimization_barrier_(tensors: Sequence[torch.Tensor]) -> None:
    """Does nothing: it keeps XLA from moving computations, and XLA computes nothing here."""
