"""Translates TrainingArguments of Transformers 4.11 to 4.26 that 4.57 refuses: the difference of the lists of fields.

4.57 still takes the other deprecated ones (no_cuda, per_gpu_train_batch_size, fp16_backend, adafactor, push_to_hub_*).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.wire import Arguments

RENAMED = {"evaluation_strategy": "eval_strategy"}
#: Arguments without a meaning today, and why the training is the same without them.
DROPPED = {
    "sharded_ddp": "fairscale's sharding saved memory and changed no result",
    "xpu_backend": "it was for Intel's accelerators",
    "use_ipex": "the Intel extension changed no result",
}
#: Old values of names that still exist. "auto" means torch's own autocast, as cuda_amp and amp did.
VALUES = {
    "optim": {"adamw_hf": "adamw_torch"},
    "half_precision_backend": {"cuda_amp": "auto", "amp": "auto"},
    "fp16_backend": {"cuda_amp": "auto", "amp": "auto"},
}
_accepted: dict[str, set[str]] = {}
_MARK = "_sagelet_takes_old_names"


def new_name(name: str, known: Iterable[str]) -> str | None:
    """Returns the current name of the argument `name`, or None if it is dropped.

    Returns `name` itself if `known` has it, or if no list here has it.
    """
    known = set(known)
    if name in known:
        return name
    if name in DROPPED:
        say_once(f"{name} of TrainingArguments was removed from Transformers and is left out: {DROPPED[name]}")
        return None
    new = RENAMED.get(name, name)
    return new if new in known else name


def new_value(name: str, value: Any) -> Any:
    """Returns `value` of the argument `name` in its current spelling."""
    text = getattr(value, "value", value)
    if not isinstance(text, str) or text in _accepted.get(name, ()):
        return value
    return VALUES.get(name, {}).get(text, value)


def translated(given: Mapping[str, Any], known: Iterable[str]) -> Arguments:
    """Returns keyword arguments with their current names and values. An argument given under both names still fails."""
    known = set(known)
    found: Arguments = {}
    for name, value in given.items():
        new = new_name(name, known)
        if new is not None:
            found[name if new != name and new in given else new] = new_value(new, value)
    return found


def install(module: ModuleType) -> None:
    """Patches `TrainingArguments`, and each subclass when it is first used: a dataclass has its own __init__."""
    base = module.TrainingArguments
    original = base.__new__

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 - taken, as __init__ takes them
        _wrap_init(cls)
        return original(cls)

    base.__new__ = __new__
    base.__signature__ = _SignatureOfInit()
    _wrap_init(base)
    fields = base.__dataclass_fields__
    _accepted["optim"] = {kind.value for kind in module.OptimizerNames}
    for name in ("half_precision_backend", "fp16_backend"):
        _accepted[name] = set(fields[name].metadata.get("choices", ())) if name in fields else set()
    for old, new in RENAMED.items():
        if old not in fields and new in fields and not hasattr(base, old):
            setattr(base, old, _alias(new))


class _SignatureOfInit:
    """Makes `inspect.signature` of the class show its __init__. Otherwise it would show sagelet's `__new__`."""

    def __get__(self, instance: object, owner: Any) -> inspect.Signature:
        return inspect.signature(functools.partial(owner.__init__, owner))


def _wrap_init(cls: Any) -> None:
    init = cls.__dict__.get("__init__")
    if init is None or hasattr(init, _MARK):
        return
    kinds = inspect.signature(init).parameters
    # An __init__ that takes any keyword passes it on to another __init__, which is wrapped.
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in kinds.values()):
        return
    cls.__init__ = _with_old_names(init, set(kinds))


def _with_old_names(init: Callable[..., None], known: set[str]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **translated(kwargs, known))

    setattr(__init__, _MARK, True)
    return __init__


def _alias(new: str) -> property:
    """Makes an old name readable, too: scripts read `training_args.evaluation_strategy`."""
    return property(lambda self: getattr(self, new), lambda self, value: setattr(self, new, value))
