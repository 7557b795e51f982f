"""Functions that torch.compile leaves alone: it would try to compile what we put around torch's own, and say so."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def untraced(function: F) -> F:
    """The function itself. Dynamo runs it, and what it calls, as Python does."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:  # Another torch, or none: nothing but a warning of Dynamo's is lost.
        return function
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    return function
