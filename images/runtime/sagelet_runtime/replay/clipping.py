"""The clipping of gradients as programs. They are traced from the functions that torch and torch_xla have for it."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

from sagelet_runtime.replay import programs
from sagelet_runtime.replay.programs import NotReplayed

MODULE = "torch.nn.utils.clip_grad"


def install(module: Any) -> None:
    """Patches the functions before torch.nn.utils takes them over, so that each script gets these."""
    module.clip_grad_norm_ = _replayed(module.clip_grad_norm_, _norm)
    module.clip_grad_value_ = _replayed(module.clip_grad_value_, _value)


def install_torch_xla(_torch_xla: Any) -> None:
    """Patches the function that torch_xla has put in the place of torch's. Scripts may have taken torch's before."""
    from torch.nn import utils

    utils.clip_grad_norm_ = _replayed(utils.clip_grad_norm_, _norm)


def _replayed(original: Any, replay: Any) -> Any:
    @functools.wraps(original)
    def clip(parameters: Any, *limits: Any, **settings: Any) -> Any:
        import torch

        if isinstance(parameters, torch.Tensor):
            return original(parameters, *limits, **settings)
        parameters = list(parameters)
        gradients = [one.grad for one in parameters if one.grad is not None]
        if not programs.can_replay(gradients):
            return original(parameters, *limits, **settings)
        try:
            programs.check_surroundings()
            return replay(original, gradients, *limits, **settings)
        except NotReplayed as reason:
            programs.replays.traced(original.__name__, reason)
        return original(parameters, *limits, **settings)

    return clip


def _norm(
    original: Any, gradients: list[Any], max_norm: Any, norm_type: Any = 2.0,
    error_if_nonfinite: bool = False, foreach: Any = None,
) -> Any:  # fmt: skip
    """Returns the gradients' norm before clipping, as torch does."""
    if error_if_nonfinite:
        raise NotReplayed("error_if_nonfinite, which reads the norm")
    if norm_type == math.inf:
        raise NotReplayed("the largest value as norm, for which torch_xla reads each gradient's")
    _refuse_other_way(foreach)
    key = (programs.signature(gradients), _number(max_norm), _number(norm_type))

    def function(tensors: list[Any]) -> list[Any]:
        norm = original([SimpleNamespace(grad=one) for one in tensors], max_norm, norm_type)
        return [norm, *tensors]

    norm, *clipped = programs.replays.run("clips", key, function, gradients)
    programs.write(gradients, clipped)
    return norm


def _value(original: Any, gradients: list[Any], clip_value: Any, foreach: Any = None) -> None:
    _refuse_other_way(foreach)
    key = (programs.signature(gradients), _number(clip_value))

    def function(tensors: list[Any]) -> list[Any]:
        original([SimpleNamespace(grad=one) for one in tensors], clip_value)
        return tensors

    programs.write(gradients, programs.replays.run("clips", key, function, gradients))


def _number(value: Any) -> float:
    if type(value) not in (float, int):
        raise NotReplayed("a limit that is no number of Python")
    return float(value)


def _refuse_other_way(foreach: Any) -> None:
    if foreach:
        raise NotReplayed("foreach")
