"""Leaves the configuration of the log to the script.

torch_xla calls `logging.basicConfig()` when it is imported, and functions of the root logger, which do the same, at a
rendezvous. Python heeds the first call alone. The script's own, with its format and its level, would do nothing.
"""

from __future__ import annotations

import functools
import logging
import sys
from types import FrameType
from typing import Any

#: Packages that no script asks to configure its log.
_LIBRARIES = ("torch_xla",)
_MARK = "_sagelet_leaves_the_log_to_the_script"


def install() -> None:
    """Call it before torch_xla is imported. May be repeated."""
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
    """Whether a library calls, itself or by `logging.info` and its kin."""
    while frame is not None and _module_of(frame) == logging.__name__:
        frame = frame.f_back
    return frame is not None and _module_of(frame).partition(".")[0] in _LIBRARIES


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
