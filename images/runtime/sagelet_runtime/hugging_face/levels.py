"""The level of the Trainer's log in Transformers 4.9 to 4.26: INFO in the first process, WARNING in the others.

`log_level="passive"`, the default, leaves the level as it is since 4.27 (huggingface/transformers #21700). Scripts of
then would lose "***** Running training *****", and their own INFO lines where they ask get_process_log_level.
"""

import functools
import logging
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from sagelet_runtime import image, installed
from sagelet_runtime.hugging_face import activation

#: The first release with `log_level`, and the first in which "passive" is what it says.
SINCE, UNTIL = (4, 9), (4, 27)


def is_info(asked: str, there: str) -> bool:
    """Whether "passive" was INFO in the version `asked` for and is so no more in the one that is `there`."""
    return SINCE <= image.numbers(asked) < UNTIL <= image.numbers(there)


def install(module: ModuleType) -> None:
    """Patches `TrainingArguments` of transformers.training_args, where it is of the version that stands in.

    Another one is of the script's requirements.txt. On AWS, too, it took the place of the image's.
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
