"""Makes the Trainer of an installed Transformers before 4.39 or Accelerate before 0.28 choose the right device.

These releases use an XLA device as soon as torch_xla can be imported, whatever USE_TORCH_XLA says. Before Transformers
4.30, which is based on Accelerate, the Trainer wrapped a model in DistributedDataParallel wherever LOCAL_RANK was set.
AWS's launcher for XLA did not set it. That Trainer and Accelerate before 0.15 take each worker for one with a GPU.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from sagelet_runtime.base import image, installed
from sagelet_runtime.hugging_face import names

#: The first release of each library that heeds USE_TORCH_XLA.
HEEDS = {"transformers": (4, 39), "accelerate": (0, 28)}
VARIABLE = "USE_TORCH_XLA"
#: The first release whose Trainer asks Accelerate for its rank and device.
ON_ACCELERATE = (4, 30)
#: The first releases of Accelerate that have workers on CPUs, and that read names.USE_CPU.
HAS_CPU_WORKERS, READS_USE_CPU = (0, 4), (0, 15)
_RANK = "LOCAL_RANK"


def hide_torch_xla(library: str) -> None:
    """Hides torch_xla from a release that ignores USE_TORCH_XLA. Called before a native job imports `library`.

    AWS's native images had no torch_xla. A script that has already imported torch_xla keeps it.
    """
    if os.environ.get(VARIABLE, "0") not in ("0", "false", "no", "off") or "torch_xla" in sys.modules:
        return
    found = installed.version(library)
    if found is not None and image.numbers(found) < HEEDS[library]:
        # None in sys.modules means "not found", as importlib documents for `import` and find_spec.
        sys.modules["torch_xla"] = None  # type: ignore[assignment]


def install(training_args: ModuleType) -> None:
    """Hides LOCAL_RANK from the Trainer before 4.30 in a compiled job, so that it trains on XLA and not in DDP."""
    if _is_on_accelerate():
        return
    kind = training_args.TrainingArguments
    kind.__post_init__ = _without_rank(kind.__post_init__)


def install_native(training_args: ModuleType) -> None:
    """Makes workers without a GPU train on the CPU over gloo in a native job. The Trainer would use NCCL."""
    if os.environ.get(names.USE_CPU) != "true" or _is_on_accelerate():
        return
    devices = functools.cached_property(_on_cpu)
    training_args.TrainingArguments._setup_devices = devices
    devices.__set_name__(training_args.TrainingArguments, "_setup_devices")


def install_state(module: Any) -> None:
    """Makes workers without a GPU use the CPU over gloo in a native job. Patches accelerate.state before 0.15."""
    found = image.numbers(installed.version("accelerate") or "")
    # Releases before 0.4 have no workers on CPUs. There each one would train alone, and say nothing.
    if os.environ.get(names.USE_CPU) != "true" or not HAS_CPU_WORKERS <= found < READS_USE_CPU:
        return
    kind = module.AcceleratorState
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *given: Any, **more: Any) -> None:
        # Accelerator gives it by its name, in every release.
        original(self, *given, **({**more, "cpu": True} if "cpu" in more else more))

    kind.__init__ = __init__


def _is_on_accelerate() -> bool:
    return image.numbers(installed.version("transformers") or "") >= ON_ACCELERATE


def _on_cpu(arguments: Any) -> Any:
    """Replaces TrainingArguments' own choice of this worker's device, with the same side effects."""
    import torch
    import torch.distributed as dist

    arguments.local_rank = int(os.environ.get(_RANK, "-1"))
    arguments._n_gpu = 0
    if arguments.local_rank != -1 and not dist.is_initialized():
        dist.init_process_group("gloo")
    return torch.device("cpu")


def _without_rank(original: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        with _hidden(_RANK):
            original(self)

    return __post_init__


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    value = os.environ.pop(name, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[name] = value
