"""Restores what Accelerate 1.x removed of 0.1 to 0.34: arguments of `Accelerator`, DistributedType.TPU and functions.

1.x still takes `split_batches` and ignores it (huggingface/accelerate #3177).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sagelet_runtime.base.wire import Arguments

#: Arguments that became fields of DataLoaderConfiguration.
OF_LOADERS = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler")
RENAMED = {"logging_dir": "project_dir"}


def translated(given: Mapping[str, Any], known: Iterable[str], configuration: Callable[..., Any] | None) -> Arguments:
    """Returns arguments of `Accelerator` under their current names.

    `configuration`: the class DataLoaderConfiguration, or None in a release without it.
    """
    known = set(known)
    found = dict(given)
    if "fp16" not in known and found.pop("fp16", False):
        found.setdefault("mixed_precision", "fp16")
    for old, new in RENAMED.items():
        if old in found and old not in known:
            value = found.pop(old)
            found.setdefault(new, value)
    if configuration is None or found.get("dataloader_config") is not None:
        return found
    loaders = {name: found.pop(name) for name in OF_LOADERS if name in found}
    if loaders:
        found["dataloader_config"] = configuration(**loaders)
    return found


def install(module: Any) -> None:
    """Patches `Accelerator` of accelerate.accelerator."""
    kind = module.Accelerator
    original = kind.__init__
    known = set(inspect.signature(original).parameters)
    configuration = getattr(module, "DataLoaderConfiguration", None)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **translated(kwargs, known, configuration))

    kind.__init__ = __init__
    if not hasattr(kind, "use_fp16"):
        kind.use_fp16 = property(lambda self: self.mixed_precision == "fp16")


def install_types(module: Any) -> None:
    """Patches accelerate.utils.dataclasses: what is XLA now was called TPU."""
    kind = module.DistributedType
    if not hasattr(kind, "TPU") and hasattr(kind, "XLA"):
        kind.TPU = kind.XLA


def install_utils(module: Any) -> None:
    """Patches accelerate.utils."""

    def is_tpu_available(check_device: bool = True) -> bool:  # noqa: ARG001 - part of the name's contract
        return bool(module.is_torch_xla_available())

    def is_ipex_available() -> bool:
        """Checks for Intel's extension. No image of AWS had it."""
        return False

    for function in (is_tpu_available, is_ipex_available):
        if not hasattr(module, function.__name__):
            setattr(module, function.__name__, function)
