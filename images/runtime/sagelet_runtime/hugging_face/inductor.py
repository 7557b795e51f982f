"""Has a Trainer compile its model, as `TrainingArguments(torch_compile=True)` does."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from sagelet_runtime.dynamo import modules

MODULE = "transformers.training_args"
FIELD = "torch_compile"


def install(module: Any) -> None:
    """Patches TrainingArguments. What the script says of the argument stays, and so do its backend and mode.

    The argument's default becomes None, which tells it from the script's own False, also on a command line:
    HfArgumentParser and subclasses take the default from the field. Old releases have no such argument. There the
    model is compiled at its first call.
    """
    arguments = module.TrainingArguments
    field = arguments.__dataclass_fields__.get(FIELD)
    if field is None:
        return
    init = inspect.unwrap(arguments.__init__)
    defaulted = [one.name for one in inspect.signature(init).parameters.values() if one.default is not one.empty]
    init.__defaults__ = tuple(
        None if name == FIELD else default for name, default in zip(defaulted, init.__defaults__ or ())
    )
    field.default = None
    arguments.torch_compile = None
    original = arguments.__post_init__

    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        if self.torch_compile is None:
            self.torch_compile = True
        elif not self.torch_compile:
            modules.leave_alone("TrainingArguments have torch_compile=False")
        original(self)

    arguments.__post_init__ = __post_init__
