"""LSTM and GRU with one matmul for all inputs of a layer and one for each gradient of a weight."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.lowerings import choice

#: The module of the class that `import torch_xla` puts in the place of nn.GRU. Not each version has it.
TORCH_XLA_GRU = "torch_xla.experimental.gru"
#: Steps of a GRU, at most. torch_xla's class is a loop in XLA's program, which compiles a long sequence sooner.
LONGEST = 64
#: What torch's functions get for a sequence: the input, the first states, weights and biases of all layers, whether
#: there are biases, the number of layers, dropout, whether it trains, has two directions, and has the batch first.
_ARGUMENTS = 9


def install(torch: Any) -> None:
    """Patches the functions that nn.LSTM and nn.GRU call.

    Leaves a torch before 2.4 as it is, which does not say whether XLA is under autocast.
    """
    if hasattr(torch, "get_autocast_dtype"):
        torch._VF.lstm = _in_few_matmuls(torch._VF.lstm, "lstm", gates=4)
        torch._VF.gru = _in_few_matmuls(torch._VF.gru, "gru", gates=3)


def install_gru(module: Any) -> None:
    """Has torch_xla's class compute short sequences, and those on other devices, as torch's own class does."""
    scan, own = module.GRU.forward, module.GRU.__mro__[1].forward

    @functools.wraps(scan)
    @untraced
    def forward(self: Any, input: Any, hx: Any = None) -> Any:
        is_packed = isinstance(input, tuple)
        is_on_xla = (input[0] if is_packed else input).device.type == "xla"
        is_own = not is_on_xla or (not is_packed and _is_short(self, input))
        return (own if is_own else scan)(self, input, hx)

    module.GRU.forward = forward


def _is_short(gru: Any, x: Any) -> bool:
    """True if `is_covered` will be true for this module and input, unless its first state is of another kind."""
    if not gru.bias or (gru.dropout and gru.training and gru.num_layers > 1):
        return False
    if not choice.are_plain([x, *gru._flat_weights]) or x.dim() not in (2, 3) or choice.is_watched() or _is_elsewhere():
        return False
    steps: int = x.shape[1 if gru.batch_first and x.dim() == 3 else 0]
    return 0 < steps <= LONGEST


def _in_few_matmuls(original: Any, name: str, *, gates: int) -> Any:
    from torch.jit import _builtins

    @untraced
    def run(*arguments: Any) -> Any:
        if is_covered(arguments, gates=gates):
            from sagelet_runtime.lowerings import sequences

            return sequences.run(name, original, *arguments)
        return original(*arguments)

    functools.update_wrapper(run, original)
    # TorchScript compiles torch's own function in its place. Before its first use it has no table, only this list.
    _builtins._builtin_ops.append((run, f"aten::{name}"))
    if _builtins._builtin_table is not None:
        _builtins._register_builtin(run, f"aten::{name}")
    return run


def is_covered(arguments: Sequence[Any], *, gates: int) -> bool:
    """True for a sequence that is not packed, in one direction, with biases, without projections and dropout.

    `arguments`: those of torch's function. `gates`: 4 for LSTM, 3 for GRU.
    """
    if len(arguments) != _ARGUMENTS or not isinstance(arguments[2], (list, tuple)):
        return False
    x, states, weights, has_biases, layers, dropout, trains, is_bidirectional, _ = arguments
    states = [states] if gates == 3 else states
    if not isinstance(states, (list, tuple)) or len(states) != (1 if gates == 3 else 2):
        return False
    if has_biases is not True or is_bidirectional or (dropout and trains and layers > 1) or len(weights) != 4 * layers:
        return False
    if not choice.are_plain([x, *states, *weights]) or choice.is_watched() or _is_elsewhere():
        return False
    return _fit(x, states, weights, gates)


def _is_elsewhere() -> bool:
    """True under autocast, which computes in shorter floats, and in torch.compile, which traces torch's own."""
    import torch

    return bool(torch.compiler.is_compiling() or torch.is_autocast_enabled("xla"))


def _fit(x: Any, states: Sequence[Any], weights: Sequence[Any], gates: int) -> bool:
    """True if the shapes are those of a sequence. torch's own function has an error for all others."""
    if x.dim() != 3 or 0 in x.shape:
        return False
    layers, hidden = len(weights) // 4, weights[1].shape[-1]
    width = x.shape[-1]
    for layer in range(layers):
        shapes = [tuple(one.shape) for one in weights[4 * layer : 4 * layer + 4]]
        if shapes != [(gates * hidden, width), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)]:
            return False
        width = hidden
    return all(tuple(one.shape[::2]) == (layers, hidden) and one.dim() == 3 for one in states)
