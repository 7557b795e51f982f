"""Has torch's fused CPU kernel do the steps of Adam and AdamW. Inductor compiles models, not optimizers.

Without it torch makes about ten passes over each parameter, one parameter after another. On GPUs torch's own choice
(`foreach`) stays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

MODULE = "torch.optim.adam"
#: What the function is given by position. The maxima are empty unless the optimizer has amsgrad.
_LISTS = ("parameters", "gradients", "first moments", "second moments", "their maxima", "counts of steps")


def install(module: Any) -> None:
    """Patches the function that both classes call, so that the optimizers and their checkpoints stay as they are."""
    import torch

    # There is none before torch 2.4.
    if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::_fused_adamw_", "CPU"):
        return
    original = module.adam

    @functools.wraps(original)
    def adam(*lists: Any, **settings: Any) -> Any:
        if settings.get("fused", False) is None and settings.get("foreach") is None and _can_fuse(lists, settings):
            settings["fused"] = True
        return original(*lists, **settings)

    module.adam = adam


def _can_fuse(lists: Sequence[Sequence[Any]], settings: dict[str, Any]) -> bool:
    """True for what the kernel computes as torch's other ways do, within rounding. `lists`: those of _LISTS.

    The kernel reads memory from end to end: without looking, it takes a parameter and its gradient as laid out alike.
    """
    import torch

    # A script that compiles the step itself has it fused by that. Another torch may call the function in another way.
    if (
        len(lists) != len(_LISTS)
        or torch.compiler.is_compiling()
        or settings.get("differentiable")
        or settings.get("capturable")
    ):
        return False
    if any(isinstance(settings.get(name), torch.Tensor) for name in ("lr", "beta1", "beta2")):
        return False
    *moments, counts = lists
    return all(count.dtype is torch.float32 for count in counts) and all(
        _is_plain(torch, one[0]) and all(_is_like(other, one[0]) for other in one[1:])
        for one in zip(*filter(None, moments))
    )


def _is_plain(torch: Any, parameter: Any) -> bool:
    """True for an ordinary float32 tensor of the CPU without gaps."""
    if type(parameter) not in (torch.nn.Parameter, torch.Tensor) or parameter.dtype is not torch.float32:
        return False
    has_gaps = not parameter.is_contiguous()
    if parameter.dim() == 4:
        has_gaps = has_gaps and not parameter.is_contiguous(memory_format=torch.channels_last)
    return parameter.device.type == "cpu" and not has_gaps


def _is_like(tensor: Any, parameter: Any) -> bool:
    return (
        tensor.layout is parameter.layout
        and tensor.dtype is parameter.dtype
        and tensor.device == parameter.device
        and tensor.stride() == parameter.stride()
    )
