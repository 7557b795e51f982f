"""The level of the Trainer's log in Transformers 4.9 to 4.26: INFO in the first process, WARNING in the others.

Since 4.27 `log_level="passive"`, the default, leaves the level as it is (huggingface/transformers #21700). Older
scripts would lose "***** Running training *****", and their own INFO lines if they use get_process_log_level.
"""

import functools
import logging
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from sagelet_runtime.base import image, installed
from sagelet_runtime.hugging_face import activation

#: The first release with `log_level`, and the first in which "passive" leaves the level alone.
SINCE, UNTIL = (4, 9), (4, 27)


def is_info(asked: str, there: str) -> bool:
    """True if "passive" was INFO in the version `asked` for and no longer is in `there`, the installed version."""
    return SINCE <= image.numbers(asked) < UNTIL <= image.numbers(there)


def install(module: ModuleType) -> None:
    """Patches `TrainingArguments` of transformers.training_args, if its version is the image's own.

    Another version comes from the script's requirements.txt. On AWS it replaced the image's version, too.
    """
    there = installed.version("transformers") or ""
    if there != os.environ.get(activation.STANDS_IN) or not is_info(os.environ.get(activation.VARIABLE, ""), there):
        return
    kind = module.TrainingArguments
    kind.get_process_log_level = _as_then(kind.get_process_log_level)


def _as_then(original: Callable[[Any], int]) -> Callable[[Any], int]:
    @functools.wraps(original)
    def get_process_log_level(self: Any) -> int:
        chosen, then = (self.log_level, logging.INFO) if self.should_log else (self.log_level_replica, logging.WARNING)
        return then if chosen == "passive" else original(self)

    return get_process_log_level
