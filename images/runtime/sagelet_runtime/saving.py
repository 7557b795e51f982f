"""Transformers saves a model once, by the main process.

On XLA its Trainer calls `save_pretrained` in every worker, with `is_main_process` for the first alone; but only the
configuration heeds it, and all workers write model.safetensors, of the same name, at the same time.
"""

import functools
from types import ModuleType
from typing import Any

#: The module to patch once a script imports it.
MODULE = "transformers.modeling_utils"


def install(modeling_utils: ModuleType) -> None:
    model = modeling_utils.PreTrainedModel
    original = model.save_pretrained

    @functools.wraps(original)
    def save_pretrained(self: Any, save_directory: Any, is_main_process: bool = True, *args: Any, **rest: Any) -> Any:
        if not is_main_process:
            return None
        return original(self, save_directory, is_main_process, *args, **rest)

    model.save_pretrained = save_pretrained
