"""torch_xla.debug.profiler: a named scope is one of PyTorch's profiler. XLA's own profiler does not run here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from sagelet_runtime.base.say import say_once

_NONE = "XLA's profiler does not run in this job; torch.profiler does"


class Trace(torch.profiler.record_function):  # type: ignore[misc]
    """A named scope in a profile of torch.profiler."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, ", ".join(f"{key}={value}" for key, value in kwargs.items()) or None)


class StepTrace(Trace):
    """A named scope of one step."""


def trace_me(scope: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with Trace(scope):
                return function(*args, **kwargs)

        return traced

    return decorator


def start_server(port: int, only_on_master: bool = True) -> object:  # noqa: ARG001 - part of the name's contract
    say_once(_NONE)
    return object()


def trace(service_addr: str, logdir: str, *_more: Any, **_settings: Any) -> None:  # noqa: ARG001 - see above
    say_once(_NONE)


def trace_detached(*args: Any, **kwargs: Any) -> None:
    trace(*args, **kwargs)


def start_trace(log_dir: Any) -> None:  # noqa: ARG001 - part of the name's contract
    say_once(_NONE)


def stop_trace() -> None:
    """Does nothing: no profile was started."""
