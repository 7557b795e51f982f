"""Stands in for torch_xla where it is not installed, in jobs that XLA does not compile.

A script for the Training Compiler calls torch_xla by name, and torch_xla's last release fits torch 2.9 only. Right
after this import `sagelet_runtime.torch_xla.uncompiled` puts the most used names on plain PyTorch, as it does with the
real torch_xla. These modules have other names that scripts use. Signatures are those of torch_xla 2.9.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

import torch

from . import amp, core, debug, distributed, runtime, utils
from .core import xla_model as _xm
from .core.missing import missing
from .distributed import xla_multiprocessing as _xmp

__all__ = ["amp", "core", "debug", "distributed", "runtime", "utils"]
__version__ = "2.9.0+sagelet"
__getattr__ = missing("torch_xla")


class _Region(ContextDecorator):
    """Code that torch_xla would trace as one graph. Here it runs as it is."""

    def __enter__(self) -> None:
        """Does nothing: there is no graph to begin."""

    def __exit__(self, *_error: object) -> None:
        """Does nothing: there is no graph to end."""


def devices() -> list[torch.device]:
    return [torch.device(name) for name in _xm.own_devices()]


def real_devices() -> list[str]:
    return _xm.xla_real_devices()


def device_count() -> int:
    return len(real_devices())


def step() -> _Region:
    return _Region()


def compile(
    f: Callable[..., Any] | None = None,
    full_graph: bool | None = False,  # noqa: ARG001 - part of the name's contract
    name: str | None = None,  # noqa: ARG001 - part of the name's contract
    max_different_graphs: int | None = None,  # noqa: ARG001 - part of the name's contract
) -> Any:
    """Returns the function as it is. Inductor compiles the modules that it calls. Without one, returns a region."""
    return _Region() if f is None else f


def manual_seed(seed: int, device: Any = None) -> None:
    _xm.set_rng_state(seed, device)


def launch(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    start_method: str = "spawn",
    debug_single_process: bool = False,
) -> Any:
    """Starts the workers. `uncompiled` wraps this, and calls `fn` itself in a worker."""
    count = 1 if debug_single_process else None
    return vars(_xmp)["spawn"](fn, args=args, nprocs=count, start_method=start_method)
