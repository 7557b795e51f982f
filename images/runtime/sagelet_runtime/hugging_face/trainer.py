"""Makes subclasses of Trainer work whose methods have old signatures.

The current Trainer passes `num_items_in_batch` to training_step and compute_loss, and `start_time` to log.
"""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

ADDED = {"compute_loss": "num_items_in_batch", "training_step": "num_items_in_batch", "log": "start_time"}


def install(module: ModuleType) -> None:
    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
        super(module.Trainer, cls).__init_subclass__(**kwargs)
        for name, added in ADDED.items():
            method = cls.__dict__.get(name)
            if inspect.isfunction(method) and _is_of_then(method, added):
                setattr(cls, name, _without(method, added, of_loss=name == "compute_loss"))

    module.Trainer.__init_subclass__ = classmethod(__init_subclass__)


def _is_of_then(method: Callable[..., Any], added: str) -> bool:
    parameters = inspect.signature(method).parameters.values()
    takes_any = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return not any(parameter.name == added or parameter.kind in takes_any for parameter in parameters)


def _without(method: Callable[..., Any], added: str, of_loss: bool) -> Callable[..., Any]:
    count = len(inspect.signature(method).parameters) - 1

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop(added, None)
        if of_loss:
            # The loss is then the mean over its own batch, and the Trainer divides it by the accumulated steps.
            self.model_accepts_loss_kwargs = False
        return method(self, *args[:count], **kwargs)

    return called
