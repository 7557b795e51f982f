"""Transformers before 4.39 and Accelerate before 0.28 themselves, not their names: where XLA is, and is not, theirs.

They take an XLA device as soon as torch_xla can be imported, whatever USE_TORCH_XLA says. And until Transformers 4.30
made Accelerate its base, its Trainer wrapped a model in DistributedDataParallel wherever LOCAL_RANK was set: AWS's
launcher for XLA set none.
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
    if image.numbers(installed.version("transformers") or "") >= ON_ACCELERATE:
        return
    kind = training_args.TrainingArguments
    kind.__post_init__ = _without_rank(kind.__post_init__)


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
