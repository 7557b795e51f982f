"""Has a Trainer compile its model, as `TrainingArguments(torch_compile=True)` does."""

from __future__ import annotations

import functools
from typing import Any

MODULE = "transformers.training_args"


def install(module: Any) -> None:
    """Patches TrainingArguments. A backend or a mode that the script chose stays."""
    arguments = module.TrainingArguments
    original = arguments.__post_init__

    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        self.torch_compile = True
        original(self)

    arguments.__post_init__ = __post_init__
