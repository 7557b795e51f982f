"""Leaves the configuration of the log to the script.

torch_xla calls `logging.basicConfig()` when it is imported. At a rendezvous it calls functions of the root logger,
which do the same. Python heeds only the first call, so the script's own, with its format and level, would do nothing.
"""

from __future__ import annotations

import functools
import logging
import sys
from types import FrameType
from typing import Any

#: Packages whose calls do not configure the log.
_LIBRARIES = ("torch_xla",)
_MARK = "_sagelet_leaves_the_log_to_the_script"


def install() -> None:
    """Makes calls from torch_xla leave the log alone. Call it before torch_xla is imported. May be repeated."""
    original = logging.basicConfig
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def basicConfig(**settings: Any) -> None:
        if not _is_of_library(sys._getframe(1)):
            original(**settings)

    setattr(basicConfig, _MARK, True)
    logging.basicConfig = basicConfig


def _is_of_library(frame: FrameType | None) -> bool:
    """True if a library is the caller, directly or through `logging.info` and its kin."""
    while frame is not None and _module_of(frame) == logging.__name__:
        frame = frame.f_back
    return frame is not None and _module_of(frame).partition(".")[0] in _LIBRARIES


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
