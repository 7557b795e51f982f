"""Begins a backward pass on XLA with a gradient of 1.0 that is there already.

torch makes it anew for each `loss.backward()`. On XLA it is then pending. It would be a program of its own at each
step, since the program of the backward pass gets it as an argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

MODULE = "torch.autograd"
#: What AOT autograd calls the backward pass that it has made.
_PROGRAM = "CompiledFunctionBackward"
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


class NotDifferentiable(Exception):
    """The script differentiates gradients of a model that was traced once: AOT autograd has none that can be."""

    def __init__(self) -> None:
        super().__init__(
            "sagelet: the script asks for gradients that can be differentiated (create_graph=True) of a model that was "
            "traced once, which has none; use SAGELET_XLA_TRACING=auto in the job's Environment"
        )


def watch(autograd: Any, seen: Callable[[bool], None] = lambda _create_graph: None) -> None:
    """Calls `seen` before each backward pass. It gets True for one that can be differentiated itself (`create_graph`).

    Such a pass through a program raises NotDifferentiable: its gradients would be constants, and the training wrong.
    """
    original = autograd._engine_run_backward

    @functools.wraps(original)
    def engine_run_backward(
        outputs: Any, grads: Any, retain_graph: bool, create_graph: bool, *args: Any, **more: Any
    ) -> Any:
        seen(create_graph)
        if create_graph and _runs_a_program(outputs):
            raise NotDifferentiable
        return original(outputs, grads, retain_graph, create_graph, *args, **more)

    autograd._engine_run_backward = engine_run_backward


def _runs_a_program(outputs: Any) -> bool:
    """True if a backward pass from these outputs runs one that AOT autograd has made."""
    waiting = [getattr(one, "grad_fn", getattr(one, "node", None)) for one in outputs]
    known = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in known:
            continue
        known.add(node)
        if node.name() == _PROGRAM:
            return True
        waiting += (one for one, _ in node.next_functions)
    return False


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
