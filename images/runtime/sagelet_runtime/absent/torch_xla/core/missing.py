"""Says of a name that the stand-in lacks that it is a stand-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def missing(module: str) -> Callable[[str], Any]:
    """Returns a module's `__getattr__`."""

    def __getattr__(name: str) -> Any:
        raise AttributeError(
            f"module {module!r} has no attribute {name!r}: it is sagelet's stand-in, because this job has no "
            "torch_xla. An image with torch_xla has it (`sagelet docs inductor`)"
        )

    return __getattr__
