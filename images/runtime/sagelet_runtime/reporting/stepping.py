"""Counts the steps of all optimizers of the process."""

import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.reporting.recorder import Recorder

#: Optimizers named in the report, at most.
MOST = 16
After = Callable[[], None]


def install(recorder: Recorder, after: After) -> Callable[[], None]:
    """Counts optimizer steps from now on. `after` is called after each step. Returns what ends the counting."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    remove: Callable[[], None] = register_optimizer_step_post_hook(observer(recorder, after)).remove
    return remove


def observer(recorder: Recorder, after: After) -> Callable[[Any, Any, Any], None]:
    """Returns the function that torch calls after each step of any optimizer."""
    #: Optimizers by id, because one may define equality. They are not kept alive, so an id may be used again.
    known: dict[int, weakref.ref[Any]] = {}

    @untraced
    def stepped(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if recorder.inherited:
            known.clear()
        seen = known.get(id(optimizer))
        if seen is None or seen() is not optimizer:
            known[id(optimizer)] = weakref.ref(optimizer)
            recorder.use()
            _note(optimizer, recorder)
        recorder.steps.optimizer_steps += 1
        recorder.steps.optimizer_stepped = time.perf_counter()
        recorder.exchanges.stepped()
        after()

    return stepped


def _note(optimizer: Any, recorder: Recorder) -> None:
    try:
        if len(recorder.optimizers) < MOST:
            rates = [_rate(group) for group in optimizer.param_groups]
            recorder.optimizers.append({"name": type(optimizer).__name__, "lr": rates})
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for parameter in parameters:
            kind = parameter.device.type
            recorder.parameters[kind if kind in recorder.parameters else "other"] += 1
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        recorder.exchanges.size(sum(gradient.numel() * gradient.element_size() for gradient in gradients))
    except Exception as error:
        recorder.failed(error)


def _rate(group: Mapping[str, object]) -> float:
    """Returns the learning rate, or 0 if it is a tensor: reading a tensor would run the graph."""
    rate = group.get("initial_lr", group.get("lr"))
    return float(rate) if isinstance(rate, (int, float)) else 0.0
