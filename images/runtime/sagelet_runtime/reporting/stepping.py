"""Optimizer steps, of all optimizers of the process."""

import time
from collections.abc import Callable
from typing import Any

from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.untraced import untraced

#: Optimizers that are named.
MOST = 16
After = Callable[[], None]


def install(recorder: Recorder, after: After) -> None:
    """`after`: called after each step."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    known: set[int] = set()

    @untraced
    def stepped(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if recorder.inherited:
            known.clear()
        if id(optimizer) not in known:
            known.add(id(optimizer))
            recorder.use()
            _note(optimizer, recorder)
        recorder.steps.optimizer_steps += 1
        recorder.steps.optimizer_stepped = time.perf_counter()
        after()

    register_optimizer_step_post_hook(stepped)


def _note(optimizer: Any, recorder: Recorder) -> None:
    try:
        if len(recorder.optimizers) < MOST:
            rates = [_rate(group) for group in optimizer.param_groups]
            recorder.optimizers.append({"name": type(optimizer).__name__, "lr": rates})
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                kind = parameter.device.type
                if kind in recorder.parameters:
                    recorder.parameters[kind] += 1
    except Exception as error:
        recorder.failed(error)


def _rate(group: dict[str, Any]) -> float:
    """0 where it is a tensor: to read it would run the graph."""
    rate = group.get("initial_lr", group.get("lr"))
    return float(rate) if isinstance(rate, int | float) else 0.0
