"""Compares a model that is traced once with the same model traced at each step: outputs and gradients of one batch."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sagelet_runtime.dynamo import graphs, states

#: What two results may differ by: of its own size, and of all results' size. As docs/explanation/same-model.md has it.
TOLERANCE, OF_ALL = 1e-3, 1e-5
#: The same where a tensor has fewer bits than float32, which a program rounds to at other places.
ROUNDED_TOLERANCE, ROUNDED_OF_ALL = 0.1, 1e-2
#: Bytes of memory that must be free for each byte of gradients.
MEMORY = 6
#: Values of one output, and of a call's arguments that are looked at, at most.
MOST_OUTPUTS, MOST_LEAVES = 64, 4096


class Different(Exception):
    """The model does not compute the same if it is traced once."""


class NotComparable(Exception):
    """The two cannot be compared, or not without that the script notices. The message says why."""


class Outcome(NamedTuple):
    """Outputs and gradients of one call, on the CPU."""

    names: list[str]
    values: list[Any | None]


def leaves(value: Any) -> Iterator[Any]:
    """Yields what is in lists, tuples and dictionaries, in order. Raises NotComparable if that is too much."""
    waiting, count = [value], 0
    while waiting:
        one = waiting.pop()
        count += 1
        if count > MOST_LEAVES:
            raise NotComparable("the model's arguments are too many")
        if isinstance(one, Mapping):
            waiting += reversed(list(one.values()))
        elif isinstance(one, (list, tuple)):
            waiting += reversed(one)
        else:
            yield one


class InPlace:
    """The arguments and parameters of a call that it may change in place."""

    def __init__(self, model: Any, inputs: Any) -> None:
        """Runs what is pending of them. `inputs`: all arguments of the call. Raises NotComparable."""
        import torch

        self._tensors = [*(one for one in leaves(inputs) if isinstance(one, torch.Tensor)), *model.parameters()]
        self._on_xla = [one for one in self._tensors if one.device.type == "xla"]
        graphs.run_pending(self._on_xla)
        self._versions = [one._version for one in self._tensors]

    def changed(self) -> bool:
        """True after a call that has changed one, also if it did so by `.data`, which counts no version."""
        import torch_xla

        pending = torch_xla._XLAC._check_tensor_need_materialization(self._on_xla)
        return any(pending) or self._versions != [one._version for one in self._tensors]


def compare(model: Any, inputs: Any, plain: Callable[[], Any], traced_once: Callable[[], Any]) -> None:
    """Calls the model both ways, and then puts back what the calls changed. `inputs`: all arguments of the calls.

    `traced_once` is first: it raises before the script's Python runs if that changes more than can be put back.
    Raises Different and NotComparable, and the errors of the calls.
    """
    import torch

    parameters = [one for one in model.parameters() if one.requires_grad]
    given = [one for one in leaves(inputs) if isinstance(one, torch.Tensor)]
    held = [*model.parameters(), *model.buffers()]
    if not parameters or any(one.device.type != "xla" for one in (*given, *held)):
        raise NotComparable("not all tensors are on XLA")
    if hook := states.hook_of(model):
        raise NotComparable(f"a hook {hook}")
    _need_memory(parameters)
    graphs.run_pending([*given, *held])
    kept = list({id(one): one for one in (*given, *model.buffers())}.values())
    device = str(parameters[0].device)
    with states.put_back(kept, device):
        after = _outcome(model, parameters, traced_once())
    with states.put_back(kept, device):
        before = _outcome(model, parameters, plain())
    _same(before, after, rounded=_rounds([*given, *held]))


def _outcome(model: Any, parameters: Sequence[Any], output: Any) -> Outcome:
    """Returns the outputs, and the gradients of a weighted sum of them."""
    import torch

    floating = (one for one in leaves(output) if isinstance(one, torch.Tensor) and one.dtype.is_floating_point)
    outputs = [one for one in floating if one.requires_grad]
    if not outputs or len(outputs) > MOST_OUTPUTS:
        raise NotComparable(f"{len(outputs)} of its outputs have gradients")
    weights = [_weights(one) for one in outputs]
    gradients = torch.autograd.grad(outputs, parameters, weights, allow_unused=True)
    results = [one if one is None else one.detach() for one in (*outputs, *gradients)]
    # All in one program.
    graphs.run_pending([one for one in results if one is not None])
    by_id = {id(one): name for name, one in model.named_parameters()}
    names = [*(f"output {at}" for at in range(len(outputs))), *(by_id[id(one)] for one in parameters)]
    return Outcome(names, list(map(_on_cpu, results)))


def _weights(output: Any) -> Any:
    """Returns a gradient of the output that no normalisation makes zero: 1, 0.54, -0.42, ..."""
    import torch

    ramp = torch.arange(output.numel(), device=output.device, dtype=torch.float32)
    return ramp.cos().reshape(output.shape).to(output.dtype)


def _on_cpu(tensor: Any | None) -> Any | None:
    import torch_xla

    if tensor is None:
        return None
    (copy,) = torch_xla._XLAC._xla_get_cpu_tensors([tensor])
    return copy


def _rounds(tensors: Sequence[Any]) -> bool:
    import torch

    shorter = any(one.dtype in (torch.bfloat16, torch.float16) for one in tensors)
    return shorter or torch.is_autocast_enabled("xla")


def _same(before: Outcome, after: Outcome, *, rounded: bool) -> None:
    """Raises Different, with the first result that differs."""
    relative, of_all = (ROUNDED_TOLERANCE, ROUNDED_OF_ALL) if rounded else (TOLERANCE, OF_ALL)
    whole = math.sqrt(sum(_size(one) ** 2 for one in before.values if one is not None))
    if not math.isfinite(whole):
        raise NotComparable("its results are not finite")
    if before.names != after.names:
        raise Different("it has other outputs")
    for name, one, other in zip(*before, after.values):
        if (one is None) != (other is None):
            raise Different(f"{name} has {'no' if other is None else 'a'} gradient")
        if one is None:
            continue
        if other is None or one.shape != other.shape or one.dtype != other.dtype:
            raise Different(f"{name} has another shape or dtype")
        apart = _size(other.double() - one.double())
        if not apart <= relative * _size(one) + of_all * whole:
            raise Different(f"{name} is {apart:.3g} apart, of {_size(one):.3g}")


def _size(tensor: Any) -> float:
    """Returns the root of the sum of the squares."""
    return float(tensor.double().norm())


def _need_memory(parameters: Sequence[Any]) -> None:
    """Raises NotComparable if the host has too little memory for another set of gradients."""
    needed = MEMORY * sum(one.numel() * one.element_size() for one in parameters)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/meminfo") as file:
        lines = dict(line.split(":", 1) for line in file)
    available = int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else free
    if needed > available:
        raise NotComparable(f"it needs {needed:,} bytes of memory, and {available:,} are free")
