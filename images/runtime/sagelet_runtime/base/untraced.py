"""Keeps torch.compile off sagelet's wrappers of torch's functions. It would try to compile them, and warn."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def untraced(function: F) -> F:
    """Returns the function itself. Dynamo runs it, and what it calls, as plain Python."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:  # Another torch, or none. Then Dynamo may warn, and nothing else changes.
        return function
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    return function
