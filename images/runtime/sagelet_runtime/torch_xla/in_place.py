"""Answers torch's shape checks of in-place updates without its Python references, where nothing can fail.

Each in-place operation on an XLA tensor first runs on meta tensors, for its errors. torch computes that in Python,
anew in each step. It was most of the host's time in AdamW's step.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

#: Operations that take floats of any size beside their own tensor's: a Python number comes as float64.
MIXING = ("add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor")
#: Operations that take tensors of their own tensor's dtype only.
STRICT = ("lerp_.Scalar", "lerp_.Tensor", "addcmul_.default", "addcdiv_.default")

#: torch drops the registered functions with their library.
_libraries: list[Any] = []


def install(_torch_xla: Any) -> None:
    """Leaves a torch as it is whose checks are not in Python, or cannot be replaced (before 2.6)."""
    import torch

    if "allow_override" not in inspect.signature(torch.library.Library.impl).parameters:
        return
    library = torch.library.Library("aten", "IMPL")
    for name in (*MIXING, *STRICT):
        packet, overload = name.split(".")
        operation = getattr(getattr(torch.ops.aten, packet), overload)
        original = operation.py_kernels.get(torch._C.DispatchKey.Meta)
        if original is None:
            continue
        with warnings.catch_warnings():
            # torch warns of each function that replaces another.
            warnings.simplefilter("ignore", UserWarning)
            library.impl(operation, quick(original, mixes=name in MIXING), "Meta", allow_override=True)
    _libraries.append(library)


def quick(original: Callable[..., Any], *, mixes: bool) -> Callable[..., Any]:
    """Returns `original`, which checks an in-place operation on meta tensors, with an early answer.

    The early answer is for plain floating-point tensors of equal or no dimensions and Python numbers. All others,
    symbolic shapes and fake tensors among them, go to `original`. `mixes`: floats of other sizes may come in.
    """
    import torch

    tensor_type = torch.Tensor
    floats = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))

    @functools.wraps(original)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self) is not tensor_type or self.dtype not in floats or self._has_symbolic_sizes_strides:
            return original(self, *args, **kwargs)
        dtypes = floats if mixes else (self.dtype,)
        for value in (*args, *kwargs.values()):
            if type(value) is float or type(value) is int:
                continue
            if (
                type(value) is not tensor_type
                or value.dtype not in dtypes
                or value._has_symbolic_sizes_strides
                or (value.dim() and value.shape != self.shape)
            ):
                return original(self, *args, **kwargs)
        return self

    return checked
