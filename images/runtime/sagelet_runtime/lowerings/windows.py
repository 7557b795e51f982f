"""The largest value of each window of an image, as elementwise operations. Imported with the first pooling only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def largest(x: Tensor, high: int, wide: int) -> Tensor:
    """Returns the largest value of each window of `high` rows and `wide` columns, which lie side by side.

    `x`: (..., rows, columns). What is left over of rows and columns has no window, as in torch.
    """
    rows, columns = x.shape[-2] // high, x.shape[-1] // wide
    if x.shape[-2] != rows * high:
        x = x.narrow(-2, 0, rows * high)
    if x.shape[-1] != columns * wide:
        x = x.narrow(-1, 0, columns * wide)
    result: Tensor = _Largest.apply(x.reshape(*x.shape[:-2], rows, high, columns, wide))
    return result


class _Largest(torch.autograd.Function):  # type: ignore[misc]
    """The largest of (..., rows, high, columns, wide) over `high` and `wide`.

    The rule is that of torch's own kernels (aten/src/ATen/native/cpu/MaxPoolKernel.cpp): the first of equal values gets
    the gradient, and NaN wins. The backward pass has operations of torch only, so that it can be differentiated.
    """

    @staticmethod
    def forward(ctx: Any, windows: Tensor) -> Tensor:
        high, wide = windows.shape[-3], windows.shape[-1]
        best = windows[..., 0, :, 0]
        place = torch.zeros_like(best, dtype=torch.int32)
        for at in range(1, high * wide):
            value = windows[..., at // wide, :, at % wide]
            is_better = (value > best) | (value != value)
            best = torch.where(is_better, value, best)
            place = torch.where(is_better, at, place)
        ctx.window = high, wide
        ctx.save_for_backward(place)
        return best

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (place,) = ctx.saved_tensors
        high, wide = ctx.window
        places = torch.arange(high * wide, dtype=torch.int32, device=place.device).view(high, 1, wide)
        is_place = place.unsqueeze(-2).unsqueeze(-1) == places
        return torch.where(is_place, gradient.unsqueeze(-2).unsqueeze(-1), 0.0)
