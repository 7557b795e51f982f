"""torch_xla's names on plain CUDA, for a compiled job whose GPU plugin does not work: the script trains natively.

A script of the Training Compiler calls torch_xla by name, so the names stay and do what the native training of the same
script would: xla_device is the worker's GPU (the CPU where torch sees none), mark_step is nothing, reductions go
through torch.distributed (NCCL, gloo). What has no native meaning keeps torch_xla's own behaviour.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sagelet_runtime.say import say_once

#: Set where a job that asks for the compiler is not compiled; holds the reason.
NOT_COMPILED = "SAGELET_NOT_COMPILED"


def install(torch_xla: Any) -> None:
    import torch

    say_once(f"NOT COMPILED: {os.environ[NOT_COMPILED]}; torch_xla's names train natively on {device(torch)}")
    _devices(torch, torch_xla)
    _worlds(torch)
    _steps(torch)
    _loaders(torch)
    _launchers(torch_xla)
    _precision(torch)


def device(torch: Any) -> Any:
    """The GPU of this worker; the CPU where torch sees no GPU either."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    chosen = torch.device("cuda", local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(chosen)
    return chosen


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def moved(data: Any, to: Any) -> Any:
    """The same nest of lists, tuples and mappings with its tensors on a device.

    A module stays as it is: its `to` would move the module itself, and with it the one that trains.
    """
    if hasattr(data, "to") and not hasattr(data, "parameters"):
        return data.to(to)
    if isinstance(data, Mapping):
        found = {name: moved(value, to) for name, value in data.items()}
        return OrderedDict(found) if isinstance(data, OrderedDict) else found
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(moved(value, to) for value in data))
    if isinstance(data, list | tuple):
        return type(data)(moved(value, to) for value in data)
    return data


class DeviceLoader:
    """MpDeviceLoader: the batches of a loader, on the device."""

    def __init__(self, loader: Iterable[Any], device: Any, **_settings: Any) -> None:
        self._loader = loader
        self._device = device

    def __iter__(self) -> Iterator[Any]:
        return (moved(batch, self._device) for batch in self._loader)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]


class ParallelLoader:
    """The older form: one loader for each device."""

    def __init__(self, loader: Iterable[Any], _devices: Sequence[Any], **_settings: Any) -> None:
        self._loader = loader

    def per_device_loader(self, device: Any) -> DeviceLoader:
        return DeviceLoader(self._loader, device)

    def close(self) -> None:
        """Holds nothing."""


def _devices(torch: Any, torch_xla: Any) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    def xla_device(*_which: Any, **_more: Any) -> Any:
        return device(torch)

    def hardware(_device: Any = None) -> str:
        return "CUDA" if torch.cuda.is_available() else "CPU"

    torch_xla.device = xm.xla_device = xla_device
    xm.xla_device_hw = hardware
    xr.device_type = hardware
    xm.get_xla_supported_devices = lambda *_which, **_more: [str(device(torch))]


def _worlds(torch: Any) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    xr.world_size, xr.global_ordinal, xr.local_ordinal = world_size, rank, local_rank
    xm.xrt_world_size = lambda defval=1: world_size()  # noqa: ARG005 - part of the name's contract
    xm.get_ordinal = lambda defval=0: rank()  # noqa: ARG005 - part of the name's contract
    xm.get_local_ordinal = local_rank
    xm.is_master_ordinal = lambda local=True: (local_rank() if local else rank()) == 0
    xm.all_reduce = _all_reduce(torch)
    xm.all_gather = _all_gather(torch)
    xm.rendezvous = _rendezvous(torch)
    xm.mesh_reduce = _mesh_reduce(torch)
    original = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if backend == "xla":
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            kwargs["init_method"] = None if kwargs.get("init_method") == "xla://" else kwargs.get("init_method")
        return original(backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def _ready(torch: Any) -> Any:
    """torch.distributed with its group; the script may have made it."""
    distributed = torch.distributed
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return distributed


def _all_reduce(torch: Any) -> Callable[..., Any]:
    def reduced(reduce_type: str, tensor: Any, scale: float) -> Any:
        if world_size() > 1:
            distributed = _ready(torch)
            operations = {"sum": "SUM", "mul": "PRODUCT", "min": "MIN", "max": "MAX"}
            distributed.all_reduce(tensor, getattr(distributed.ReduceOp, operations[reduce_type]))
        return tensor.mul_(scale) if scale != 1.0 else tensor

    def all_reduce(reduce_type: str, inputs: Any, scale: float = 1.0, *_groups: Any, **_more: Any) -> Any:
        """A list is reduced in place; of one tensor the result is a new one, as with torch_xla."""
        with torch.no_grad():
            if isinstance(inputs, list | tuple):
                for tensor in inputs:
                    reduced(reduce_type, tensor, scale)
                return None
            return reduced(reduce_type, inputs.clone(), scale)

    return all_reduce


def _all_gather(torch: Any) -> Callable[..., Any]:
    def all_gather(value: Any, dim: int = 0, *_groups: Any, **_more: Any) -> Any:
        if world_size() == 1:
            return value.clone()
        parts = [torch.empty_like(value) for _ in range(world_size())]
        _ready(torch).all_gather(parts, value.contiguous())
        return torch.cat(parts, dim)

    return all_gather


def _rendezvous(torch: Any) -> Callable[..., Any]:
    def rendezvous(_tag: str, payload: bytes = b"", *_more: Any, **_others: Any) -> list[bytes]:
        if world_size() == 1:
            return [payload]
        found: list[Any] = [None] * world_size()
        _ready(torch).all_gather_object(found, payload)
        return found

    return rendezvous


def _mesh_reduce(torch: Any) -> Callable[..., Any]:
    def mesh_reduce(_tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
        found: list[Any] = [moved(data, "cpu")]
        if world_size() > 1:
            here, found = found[0], [None] * world_size()
            _ready(torch).all_gather_object(found, here)
        return reduce_fn(found)

    return mesh_reduce


def _steps(torch: Any) -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        """Ends no graph: there is none."""

    def reduce_gradients(optimizer: Any, *_groups: Any, **_more: Any) -> None:
        if world_size() > 1:
            xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / world_size())

    def optimizer_step(optimizer: Any, barrier: bool = False, optimizer_args: Any = None, **_more: Any) -> Any:  # noqa: ARG001
        reduce_gradients(optimizer)
        return optimizer.step(**(optimizer_args or {}))

    def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = (), **_more: Any) -> None:
        closure(*args)

    def save(data: Any, file: Any, master_only: bool = True, global_master: bool = False) -> None:
        if not master_only or xm.is_master_ordinal(local=not global_master):
            torch.save(moved(data, "cpu"), file)
        xm.rendezvous("torch_xla.core.xla_model.save")

    torch_xla.sync = xm.mark_step = xm.wait_device_ops = nothing
    xm.reduce_gradients, xm.optimizer_step = reduce_gradients, optimizer_step
    xm.add_step_closure, xm.save = add_step_closure, save


def _loaders(_torch: Any) -> None:
    import torch_xla.distributed.parallel_loader as loaders

    loaders.MpDeviceLoader, loaders.ParallelLoader = DeviceLoader, ParallelLoader


def _launchers(torch_xla: Any) -> None:
    """Whoever started the workers did so before: this process is one of them."""
    import torch_xla.distributed.xla_multiprocessing as multiprocessing

    def spawn(function: Callable[..., Any], args: tuple[Any, ...] = (), *_more: Any, **_others: Any) -> None:
        function(rank(), *args)

    multiprocessing.spawn = torch_xla.launch = spawn


def _precision(torch: Any) -> None:
    from torch_xla import amp
    from torch_xla.amp import syncfree

    def autocast(_device: Any, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    def grad_scaler(*_args: Any, **settings: Any) -> Any:
        settings.pop("use_zero_grad", None)
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.amp.GradScaler(kind, **{"enabled": torch.cuda.is_available(), **settings})

    amp.autocast, amp.GradScaler = autocast, grad_scaler
    for name in ("SGD", "Adam", "AdamW"):
        setattr(syncfree, name, getattr(torch.optim, name))
