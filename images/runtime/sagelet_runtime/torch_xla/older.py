"""Adds names that this package uses and that torch and torch_xla 2.1 lack. The image for Python 3.9 has those."""

import os
from typing import Any

from sagelet_runtime.base import image

#: Prefixes of operators such as the reading of a scalar. torch_xla counts operators that it runs on the CPU by name.
_OPERATORS = "aten::"


def install(torch_xla: Any) -> None:
    """Adds the missing names. Runs before every other part, because they rely on the names."""
    # torch_xla 2.1 donates buffers that it still needs. A model with a buffer beside its parameters (GPT-2's mask)
    # trains, but its state_dict ends the process ("CopyToHostAsync() called on deleted or donated buffer").
    if image.numbers(torch_xla.__version__)[:2] < (2, 2):
        os.environ.setdefault("XLA_ENABLE_PARAM_ALIASING", "0")
    _torch()
    _sync(torch_xla)
    _launch(torch_xla)
    _native(torch_xla._XLAC)


def _torch() -> None:
    """Adds torch.amp.GradScaler, which torch has for all devices since 2.3."""
    import torch

    if not hasattr(torch.amp, "GradScaler"):
        torch.amp.GradScaler = torch.cuda.amp.GradScaler


def _sync(torch_xla: Any) -> None:
    import torch_xla.core.xla_model as xm

    def sync(wait: bool = False, reset_scope: bool = True) -> None:  # noqa: ARG001 - part of the name's contract
        xm.mark_step(wait)

    if not hasattr(torch_xla, "sync"):
        torch_xla.sync = sync
    if not hasattr(torch_xla, "device"):
        torch_xla.device = xm.xla_device


def _launch(torch_xla: Any) -> None:
    import torch_xla.distributed.xla_multiprocessing as xmp

    def launch(fn: Any, args: tuple[Any, ...] = (), start_method: str = "spawn", **_settings: Any) -> None:
        xmp.spawn(fn, args=args, start_method=start_method)

    if not hasattr(torch_xla, "launch"):
        torch_xla.launch = launch


def _native(native: Any) -> None:
    if not hasattr(native, "_get_executed_fallback_ops"):
        native._get_executed_fallback_ops = lambda: [
            name for name in native._xla_counter_names() if name.startswith(_OPERATORS)
        ]
    if hasattr(native, "_xla_runtime_is_initialized"):
        return
    original, opened = native._xla_get_default_device, []

    def get_default_device() -> str:
        name: str = original()
        opened.append(name)
        native._xla_runtime_is_initialized = lambda: True
        return name

    native._xla_get_default_device = get_default_device
    native._xla_runtime_is_initialized = lambda: bool(opened or native._xla_counter_value("CreateXlaTensor"))
