"""Says how many calls of the model a Trainer's training has left, for the choice when to trace it once."""

import functools
from types import ModuleType
from typing import Any

from sagelet_runtime.dynamo import xla

MODULE = "transformers.trainer_callback"


def install(module: ModuleType) -> None:
    handler = module.CallbackHandler
    original = handler.on_train_begin

    @functools.wraps(original)
    def on_train_begin(self: Any, args: Any, state: Any, control: Any) -> Any:
        def left() -> int:
            return max(0, int(state.max_steps - state.global_step)) * int(args.gradient_accumulation_steps)

        xla.of_process.left = left
        return original(self, args, state, control)

    handler.on_train_begin = on_train_begin
