"""What a call of a model may change beside its results, and puts back what a call that is only compared has changed."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from sagelet_runtime.replay import seeds
from sagelet_runtime.replay.programs import memory_of

#: Attributes of modules, and entries of their containers, that are looked at, at most.
MOST_ENTRIES = 100_000
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks")
_CONTAINERS = (list, tuple, set, deque)
_NUMBERS = (bool, int, float, str)


class TooLarge(Exception):
    """A model has more attributes than are looked at."""


def hook_of(model: Any) -> str:
    """Returns where a hook of the script is that each further call would call, too. Empty if there is none."""
    from torch.nn.modules import module as modules

    if any(getattr(modules, name, None) for name in _GLOBAL_HOOKS):
        return "of all modules"
    for name, module in model.named_modules():
        if any(getattr(module, kind, None) for kind in _HOOKS):
            return f"of {name or type(model).__name__}"
    hooked = (name for name, one in model.named_parameters() if one._backward_hooks)
    return next((f"of the gradient of {name}" for name in hooked), "")


class Attributes:
    """The attributes of a model's modules at one time."""

    def __init__(self, model: Any) -> None:
        """Raises TooLarge."""
        self._values: dict[str, Any] = {}
        for name, module in model.named_modules():
            for key, value in vars(module).items():
                self._values[f"{name}.{key}".lstrip(".")] = _contents(value)
            if sum(map(_size, self._values.values())) > MOST_ENTRIES:
                raise TooLarge(f"the model has more than {MOST_ENTRIES} attributes")

    def changed(self, now: Attributes) -> str:
        """Returns an attribute that is another in `now`, or empty."""
        names = self._values.keys() | now._values.keys()
        absent = object()
        pairs = ((name, self._values.get(name, absent), now._values.get(name, absent)) for name in sorted(names))
        return next((name for name, before, after in pairs if not _same(before, after)), "")


def _contents(value: Any) -> Any:
    if isinstance(value, dict):
        return {"keys": list(value), "values": list(value.values())}
    return {"values": list(value)} if isinstance(value, _CONTAINERS) else value


def _size(value: Any) -> int:
    return 1 + (len(value["values"]) if isinstance(value, dict) else 0)


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(
            len(before[key]) == len(after[key]) and all(map(_same, before[key], after[key])) for key in before
        )
    return before is after or (type(before) is type(after) and isinstance(before, _NUMBERS) and before == after)


@contextlib.contextmanager
def put_back(tensors: Sequence[Any], device: str) -> Iterator[None]:
    """Puts back random states and the values of tensors that are changed in place, such as the means of batch norm.

    `tensors`: on the device, none of them pending.
    """
    import random

    import torch
    import torch_xla

    process = seeds.of_process()
    seed, host, python = process.current(device), torch.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy is not None else None
    memory, versions = [memory_of(one) for one in tensors], tuple(one._version for one in tensors)
    # On the CPU: a clone on XLA shares its tensor's memory, which an update in place may give away.
    values = torch_xla._XLAC._xla_get_cpu_tensors([one.detach() for one in tensors]) if tensors else []
    try:
        yield
    finally:
        process.move(device, seed)
        torch.set_rng_state(host)
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)
        with torch.no_grad():
            for tensor, name, value in zip(tensors, memory, values):
                if is_pending(tensor) or memory_of(tensor) != name:
                    tensor.copy_(value)
        # The script may hold a graph of an earlier call, which has saved them: for it they are what they were.
        torch._C._autograd._unsafe_set_version_counter(tuple(tensors), versions)


def is_pending(tensor: Any) -> bool:
    import torch_xla

    return bool(torch_xla._XLAC._check_tensor_need_materialization([tensor])[0])
