"""torch_xla's names on plain CUDA, for a compiled job whose GPU plugin does not work: the script trains natively.

A script of the Training Compiler calls torch_xla by name, so the names stay and do what the native training of the same
script would: xla_device is the worker's GPU (the CPU where torch sees none), mark_step is nothing, reductions go
through torch.distributed (NCCL, gloo). What has no native meaning keeps torch_xla's own behaviour.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sagelet_runtime import compat
from sagelet_runtime import uncompiled_calls as calls
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


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


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
    if isinstance(data, (list, tuple)):
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

    xr.world_size, xr.global_ordinal, xr.local_ordinal = calls.world_size, calls.rank, local_rank
    xm.xrt_world_size = lambda defval=1: calls.world_size()  # noqa: ARG005 - part of the name's contract
    xm.get_ordinal = lambda defval=0: calls.rank()  # noqa: ARG005 - part of the name's contract
    xm.get_local_ordinal = local_rank
    xm.is_master_ordinal = lambda local=True: (local_rank() if local else calls.rank()) == 0
    for call in (
        calls.all_reduce,
        calls.all_gather,
        calls.reduce_scatter,
        calls.collective_broadcast,
        calls.rendezvous,
    ):
        setattr(xm, call.__name__, call)
    xm.mesh_reduce = mesh_reduce
    original = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if backend == "xla":
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            kwargs["init_method"] = None if kwargs.get("init_method") == "xla://" else kwargs.get("init_method")
        return original(backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def mesh_reduce(_tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """`reduce_fn` of every worker's `data`, tensors as CPU tensors."""
    return reduce_fn(calls.gathered_objects(moved(data, "cpu")))


def _steps(torch: Any) -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        """Ends no graph: there is none."""

    def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = (), **_more: Any) -> None:
        closure(*args)

    def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
        if not master_only or xm.is_master_ordinal(local=not global_master):
            torch.save(moved(data, "cpu"), file_or_path)

    # Those that reduce gradients and make a step are torch_xla's own, over these names.
    torch_xla.sync = xm.mark_step = xm.wait_device_ops = nothing
    xm.add_step_closure, xm.save = add_step_closure, compat.meeting_save(save, os.environ)


def _loaders(_torch: Any) -> None:
    import torch_xla.distributed.parallel_loader as loaders

    loaders.MpDeviceLoader, loaders.ParallelLoader = DeviceLoader, ParallelLoader


def _launchers(torch_xla: Any) -> None:
    """In a plain script they start the workers, as in a compiled job; in a worker they call the function."""
    import torch_xla.distributed.xla_multiprocessing as multiprocessing

    from sagelet_runtime import spawn

    def alone(function: Callable[..., Any], args: tuple[Any, ...] = (), **_settings: Any) -> None:
        function(0, *args)

    multiprocessing.spawn = spawn.make_spawn(alone, starts_workers=True)
    torch_xla.launch = spawn.make_launch(torch_xla.launch)


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
