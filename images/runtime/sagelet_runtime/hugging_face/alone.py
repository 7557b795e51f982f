"""Makes `training_args.local_rank` -1 in a script that no launcher started, as up to Transformers 4.29.

Later releases say 0, so an older script prints "distributed training: True" in a job of one worker. In a compiled job
LOCAL_RANK is set for accelerate, and the earlier releases read that.
"""

from __future__ import annotations

import functools
import os
from typing import Any

#: The module to patch once a script imports it.
MODULE = "transformers.training_args"


def install(module: Any) -> None:
    """Patches `TrainingArguments`."""
    kind = module.TrainingArguments
    original = kind.__post_init__

    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        original(self)
        if "RANK" not in os.environ:
            self.local_rank = -1

    kind.__post_init__ = __post_init__
