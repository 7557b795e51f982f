"""`torch.xla`: the module in which torch.utils.checkpoint looks for a device's random numbers.

torch 1.x looked at CUDA only, so that a script with gradient checkpoints trained on XLA. Since 2.1 torch asks the
module of the tensors' device, and torch_xla 2.9 has none: "module 'torch' has no attribute 'xla'". With this module a
layer that runs again in the backward pass also has the same dropout as before.
"""

from contextlib import nullcontext
from types import ModuleType
from typing import Any


def install(_torch_xla: Any) -> None:
    """Registers the module, unless torch has one."""
    import torch

    if not hasattr(torch, "xla"):
        torch._register_device_module("xla", _module())


def _module() -> ModuleType:
    import torch_xla.core.xla_model as xm

    def get_rng_state(_device: object = None) -> int:
        state: int = xm.get_rng_state()
        return state

    def set_rng_state(state: int, _device: object = None) -> None:
        xm.set_rng_state(state)

    module = ModuleType("torch.xla")
    # A worker has one device, so its number does not matter.
    vars(module).update(
        _initialized=True, device=nullcontext, get_rng_state=get_rng_state, set_rng_state=set_rng_state,
        device_count=lambda: 1,
    )  # fmt: skip
    return module
