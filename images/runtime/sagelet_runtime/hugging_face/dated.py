"""Transformers before 4.39 and Accelerate before 0.28 themselves, not their names: which device their Trainer takes.

They take an XLA device as soon as torch_xla can be imported, whatever USE_TORCH_XLA says. And until Transformers 4.30
made Accelerate its base, its Trainer wrapped a model in DistributedDataParallel wherever LOCAL_RANK was set (AWS's
launcher for XLA set none), and knew no workers without GPUs but those of MPI.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from sagelet_runtime import image, installed
from sagelet_runtime.hugging_face import names

#: The first release of each library that heeds the variable.
HEEDS = {"transformers": (4, 39), "accelerate": (0, 28)}
VARIABLE = "USE_TORCH_XLA"
#: Since then the Trainer asks Accelerate who it is.
ON_ACCELERATE = (4, 30)
_RANK = "LOCAL_RANK"


def hide_torch_xla(library: str) -> None:
    """Called before `library` is imported in a native job: torch_xla is not there for a release that heeds nothing.

    AWS's native images had none. A script that has imported it knows what it does.
    """
    if os.environ.get(VARIABLE, "0") not in ("0", "false", "no", "off") or "torch_xla" in sys.modules:
        return
    found = installed.version(library)
    if found is not None and image.numbers(found) < HEEDS[library]:
        # What importlib documents for "not found", for `import` and find_spec alike.
        sys.modules["torch_xla"] = None  # type: ignore[assignment]


def install(training_args: ModuleType) -> None:
    """In a compiled job: the Trainer of before 4.30 sees no LOCAL_RANK, and so trains on XLA and not in DDP."""
    if _is_on_accelerate():
        return
    kind = training_args.TrainingArguments
    kind.__post_init__ = _without_rank(kind.__post_init__)


def install_native(training_args: ModuleType) -> None:
    """In a native job whose workers have no GPU: they train on the CPU, over gloo, where the Trainer takes NCCL."""
    if os.environ.get(names.USE_CPU) != "true" or _is_on_accelerate():
        return
    devices = functools.cached_property(_on_cpu)
    training_args.TrainingArguments._setup_devices = devices
    devices.__set_name__(training_args.TrainingArguments, "_setup_devices")


def _is_on_accelerate() -> bool:
    return image.numbers(installed.version("transformers") or "") >= ON_ACCELERATE


def _on_cpu(arguments: Any) -> Any:
    """TrainingArguments' own answer to which device is this worker's, with its side effects."""
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
