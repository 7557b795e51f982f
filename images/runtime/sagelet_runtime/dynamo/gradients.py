"""Begins a backward pass on XLA with a gradient of 1.0 that is there already.

torch makes it anew for each `loss.backward()`. On XLA it is then pending. It would be a program of its own at each
step, since the program of the backward pass gets it as an argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

MODULE = "torch.autograd"
#: Kinds of losses (dtype, shape, device) whose gradients are kept, at most.
MOST = 16


def install(autograd: Any, is_wanted: Callable[[], bool] = lambda: True) -> None:
    """`is_wanted` is asked at each backward pass. Where all is traced, the gradient is a constant of the program."""
    original, kept = autograd._make_grads, Kept()

    @functools.wraps(original)
    def make_grads(outputs: Any, grads: Any, is_grads_batched: bool) -> Any:
        if not is_wanted():
            return original(outputs, grads, is_grads_batched)
        return original(outputs, [kept.of(*pair) for pair in zip(outputs, grads)], is_grads_batched)

    autograd._make_grads = make_grads


class Kept:
    """Gradients of 1.0 on XLA, each with its count of changes when it was made."""

    def __init__(self) -> None:
        self._ones: dict[Any, tuple[Any, int]] = {}

    def of(self, output: Any, gradient: Any) -> Any:
        """Returns the gradient with which the backward pass of `output` begins. None: torch makes it, or refuses to."""
        import torch

        if gradient is not None or type(output) not in (torch.Tensor, torch.nn.Parameter):
            return gradient
        if output.device.type != "xla" or not output.requires_grad or output.numel() != 1:
            return None
        functorch = torch._C._functorch.is_functorch_wrapped_tensor(output)
        if functorch or not output.dtype.is_floating_point or torch.compiler.is_compiling():
            return None
        key = (output.dtype, output.shape, output.device)
        one, version = self._ones.get(key, (None, 0))
        # A hook of the script may have changed it.
        if one is None or one._version != version:
            if len(self._ones) >= MOST:
                return None
            one = torch.ones(output.shape, dtype=output.dtype).to(output.device)
            self._ones[key] = one, one._version
        return one
