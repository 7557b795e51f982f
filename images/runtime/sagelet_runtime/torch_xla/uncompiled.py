"""torch_xla's names on plain CUDA, for a compiled job whose GPU plugin does not work. The script trains natively.

A script for the Training Compiler calls torch_xla by name. So the names stay and do what native training of the same
script would do. xla_device is the worker's GPU, or the CPU where torch sees no GPU. mark_step does nothing. Reductions
use torch.distributed (NCCL, gloo). Names without a native meaning keep torch_xla's own behaviour.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.variables import INDUCTOR, NOT_COMPILED
from sagelet_runtime.torch_xla import compat
from sagelet_runtime.torch_xla import uncompiled_calls as calls


def install(torch_xla: Any) -> None:
    import torch

    if INDUCTOR in os.environ:
        say_once(f"Inductor compiles: torch_xla's names stand for plain PyTorch on {device(torch)}")
    else:
        say_once(f"NOT COMPILED: {os.environ[NOT_COMPILED]}; torch_xla's names train natively on {device(torch)}")
    _devices(torch, torch_xla)
    _worlds(torch)
    _steps(torch)
    _loaders(torch)
    _launchers(torch_xla)
    _precision(torch)


def device(torch: Any) -> Any:
    """Returns the GPU of this worker, or the CPU where torch sees no GPU either."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    chosen = torch.device("cuda", local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(chosen)
    return chosen


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", "0"))


def moved(data: Any, to: Any) -> Any:
    """Returns the same nest of lists, tuples and mappings with its tensors on a device.

    A module stays as it is: its `to` would move the very module that is being trained.
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
    """In place of MpDeviceLoader: yields the batches of a loader on the device."""

    def __init__(self, loader: Iterable[Any], device: Any, **_settings: Any) -> None:
        self._loader = loader
        self._device = device

    def __iter__(self) -> Iterator[Any]:
        return (moved(batch, self._device) for batch in self._loader)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]


class ParallelLoader:
    """In place of ParallelLoader, the older form with one loader for each device."""

    def __init__(self, cpu_loader: Iterable[Any], devices: Sequence[Any], *_more: Any, **_settings: Any) -> None:
        del devices
        self._loader = cpu_loader

    def per_device_loader(self, device: Any) -> DeviceLoader:
        return DeviceLoader(self._loader, device)

    def close(self) -> None:
        """Does nothing: there is no thread to end."""


def _devices(torch: Any, torch_xla: Any) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    def xla_device(*_which: Any, **_more: Any) -> Any:
        return device(torch)

    def hardware(device: Any = None) -> str:  # noqa: ARG001 - part of the name's contract
        return "CUDA" if torch.cuda.is_available() else "CPU"

    torch_xla.device = xm.xla_device = xla_device
    xm.xla_device_hw = xr.device_type = hardware
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


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:  # noqa: ARG001 - part of the name's contract
    """Calls `reduce_fn` with every worker's `data`. Tensors arrive on the CPU."""
    return reduce_fn(calls.gathered_objects(moved(data, "cpu")))


def _steps(torch: Any) -> None:
    import torch_xla
    import torch_xla.core.xla_model as xm

    def nothing(*_args: Any, **_kwargs: Any) -> None:
        """Does nothing: there is no graph to end."""

    def add_step_closure(closure: Callable[..., Any], args: tuple[Any, ...] = (), run_async: bool = False) -> None:
        del run_async
        closure(*args)

    def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
        if not master_only or xm.is_master_ordinal(local=not global_master):
            torch.save(moved(data, "cpu"), file_or_path)

    # The functions that reduce gradients and step the optimizer stay torch_xla's own. They call these names.
    torch_xla.sync = xm.mark_step = xm.wait_device_ops = nothing
    xm.add_step_closure, xm.save = add_step_closure, compat.meeting_save(save, os.environ)


def _loaders(_torch: Any) -> None:
    import torch_xla.distributed.parallel_loader as loaders

    loaders.MpDeviceLoader, loaders.ParallelLoader = DeviceLoader, ParallelLoader


def _launchers(torch_xla: Any) -> None:
    """Patches the launchers. They start the workers in a plain script, and call the function in a worker."""
    import torch_xla.distributed.xla_multiprocessing as multiprocessing

    from sagelet_runtime.torch_xla import spawn

    def alone(function: Callable[..., Any], args: tuple[Any, ...] = (), **_settings: Any) -> None:
        function(0, *args)

    multiprocessing.spawn = spawn.make_spawn(alone, starts_workers=True)
    torch_xla.launch = spawn.make_launch(torch_xla.launch)


def _precision(torch: Any) -> None:
    from torch_xla import amp
    from torch_xla.amp import syncfree

    def autocast(device: Any, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> Any:
        del device
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    def grad_scaler(*_args: Any, **settings: Any) -> Any:
        settings.pop("use_zero_grad", None)
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.amp.GradScaler(kind, **{"enabled": torch.cuda.is_available(), **settings})

    amp.autocast, amp.GradScaler = autocast, grad_scaler
    for name in ("SGD", "Adam", "AdamW"):
        setattr(syncfree, name, getattr(torch.optim, name))
