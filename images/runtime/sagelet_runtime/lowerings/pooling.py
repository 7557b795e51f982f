"""max_pool2d for windows that do not overlap. Outputs and gradients are torch's, bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.lowerings import choice

MODULE = "torch.nn.functional"
#: Values of a window, at most. Each is an operation, and a larger window is better reduced by a loop.
MOST_PLACES = 16


def install(functional: Any) -> None:
    """Patches the function, which nn.MaxPool2d calls, too. TorchScript compiles torch's own in its place."""
    from torch._jit_internal import boolean_dispatched

    original = functional.max_pool2d

    @functools.wraps(original)
    @untraced
    def max_pool2d(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        ceil_mode: Any = False, return_indices: Any = False,
    ) -> Any:  # fmt: skip
        if not (ceil_mode or return_indices) and _is_covered(input):
            window = window_of(input.shape, kernel_size, stride, padding, dilation)
            if window:
                from sagelet_runtime.lowerings.windows import largest

                return largest(input, *window)
        return original(
            input, kernel_size, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=return_indices
        )

    boolean_dispatched[max_pool2d] = boolean_dispatched[original]
    functional.max_pool2d = max_pool2d


def _is_covered(tensor: Any) -> bool:
    """True also while Dynamo traces a model: it leaves the call as it is, and AOTAutograd traces what the call does."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return False
    return (choice.are_plain([tensor]) or choice.is_traced(tensor)) and not choice.is_watched()


def window_of(
    shape: Sequence[int], kernel_size: Any, stride: Any, padding: Any, dilation: Any
) -> tuple[int, int] | None:
    """Returns height and width of windows that lie side by side. None if torch's own function shall pool, or refuse.

    `shape` of the input: (channels, height, width), or with a batch before. The others are those of `max_pool2d`.
    """
    window, steps = _pair(kernel_size), _pair(kernel_size if stride is None or stride in ((), []) else stride)
    if window is None or steps != window or _pair(padding) != (0, 0) or _pair(dilation) != (1, 1):
        return None
    high, wide = window
    if len(shape) not in (3, 4) or 0 in shape or not (1 <= high <= shape[-2] and 1 <= wide <= shape[-1]):
        return None
    return window if 1 < high * wide <= MOST_PLACES else None


def _pair(value: Any) -> tuple[int, int] | None:
    """Returns what torch takes for height and width. None for all that is not one or two ints."""
    values = (value, value) if type(value) is int else tuple(value) if isinstance(value, (tuple, list)) else ()
    values = values * 2 if len(values) == 1 else values
    return (values[0], values[1]) if len(values) == 2 and all(type(one) is int for one in values) else None
