"""Decides for which tensors, and where, torch's functions may be computed in another form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagelet_runtime.base.variables import on_cpu

VARIABLE = "SAGELET_XLA_LOWERINGS"
#: The classes of tensors that are traced. By name, because torch imports them only to trace.
_TRACED = frozenset(
    {("torch._subclasses.fake_tensor", "FakeTensor"), ("torch._subclasses.functional_tensor", "FunctionalTensor")}
)


def is_chosen(environ: Mapping[str, str]) -> bool:
    """True if XLA runs on CPUs, unless the job's Environment has `SAGELET_XLA_LOWERINGS=0`."""
    return on_cpu(environ) and environ.get(VARIABLE, "1") != "0"


def are_plain(tensors: Sequence[Any]) -> bool:
    """True for ordinary tensors of one XLA device and one dtype, float32 or float64.

    Shorter floats are left out. XLA computes them in float32 within a program and may round them elsewhere, so equal
    maxima can become different.
    """
    import torch

    first = tensors[0]
    if first.device.type != "xla" or first.dtype not in (torch.float32, torch.float64):
        return False
    return all(
        type(one) in (torch.Tensor, torch.nn.Parameter) and one.device == first.device and one.dtype == first.dtype
        for one in tensors
    )


def is_traced(tensor: Any) -> bool:
    """True for what stands for an XLA tensor of these dtypes while AOTAutograd or Dynamo traces a model once."""
    import torch

    return (type(tensor).__module__, type(tensor).__name__) in _TRACED and (
        tensor.device.type == "xla" and tensor.dtype in (torch.float32, torch.float64)
    )


def is_watched() -> bool:
    """True where torch needs its own functions: TorchScript's tracing, functorch's transforms, forward-mode AD."""
    import torch
    from torch.autograd import forward_ad

    return bool(
        torch.jit.is_tracing()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
    )
