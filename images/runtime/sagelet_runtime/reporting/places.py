"""Counts calls by the line of the user's script that made them."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType
from typing import Optional

from sagelet_runtime.base.wire import JsonObject

#: Different places kept, at most: a script that generates code must not fill the memory.
MOST = 256
#: Frames to walk, at most, from the inside of a library to the script.
_DEEPEST = 100

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STANDARD = tuple(os.path.join(sysconfig.get_paths()[name], "") for name in ("stdlib", "platstdlib"))
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_TORCH = ("torch" + os.sep, "torch_xla" + os.sep)

#: Code and line in the script, and `package/file.py:line` of the library if a library made the call.
Where = tuple[Optional[CodeType], int, str]


@dataclass
class _Calls:
    #: The place as it is shown. Python forgets the script's directory before its exit handlers run.
    file: str
    count: int = 0
    seconds: float = 0.0
    #: Calls in a step that had made the call before, and the step of the last call.
    repeats: int = 0
    step: int = -1


class Places:
    """Counts and seconds by call and place."""

    def __init__(self, steps: Callable[[], int] | None = None) -> None:
        """`steps` returns the number of steps so far, if it matters in how many steps a call was made."""
        self._found: dict[tuple[str, Where], _Calls] = {}
        self._steps = steps

    def add(self, call: str, frame: FrameType | None, seconds: float = 0.0) -> None:
        """Counts a call. `frame` is the caller's."""
        key = (call, _where(frame))
        calls = self._found.get(key)
        if calls is None:
            if len(self._found) >= MOST:
                key = (call, (None, 0, ""))
            code = key[1][0]
            calls = self._found.setdefault(key, _Calls("" if code is None else shown(code.co_filename)))
        calls.count += 1
        calls.seconds += seconds
        if self._steps is not None:
            step = self._steps()
            calls.repeats += step == calls.step
            calls.step = step

    def listed(self) -> list[JsonObject]:
        """Returns the places, ready for JSON, the largest count first."""
        # An evaluation after the last step belongs to no step.
        now = -2 if self._steps is None else self._steps()
        entries = sorted(self._found.copy().items(), key=lambda item: -item[1].count)
        return [
            {
                "call": call,
                "file": calls.file,
                "line": line,
                "function": "" if code is None else code.co_name,
                "via": via,
                "count": calls.count,
                "repeats": calls.repeats + (calls.step == now),
                "seconds": round(calls.seconds, 6),
            }
            for (call, (code, line, via)), calls in entries
        ]


def _where(frame: FrameType | None) -> Where:
    """Finds the script's innermost frame, and the innermost frame between it and the call that is not torch's."""
    via = ""
    for _ in range(_DEEPEST):
        if frame is None:
            break
        kind = _kind(frame.f_code.co_filename)
        if kind == "script":
            return frame.f_code, frame.f_lineno, via
        if kind == "library" and not via:
            via = f"{_within(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return None, 0, via


@lru_cache(maxsize=4096)
def _kind(filename: str) -> str:
    if filename.startswith("<") or filename.startswith(_OWN):
        return "inner"
    below = _within(filename)
    if below != filename:
        return "inner" if below.startswith(_TORCH) else "library"
    return "library" if filename.startswith(_STANDARD) else "script"


def _within(filename: str) -> str:
    """Shortens a path to `transformers/trainer.py` in a package, and `logging/__init__.py` in Python's own library."""
    for directory in _PACKAGES:
        _, found, below = filename.rpartition(directory)
        if found:
            return below
    return next((filename.removeprefix(root) for root in _STANDARD if filename.startswith(root)), filename)


def shown(filename: str) -> str:
    """Returns the path relative to the script's directory or the working directory, or unchanged outside of both."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    roots = [os.path.dirname(os.path.abspath(main))] if main else []
    for root in (*roots, os.getcwd()):
        if filename.startswith(os.path.join(root, "")):
            return os.path.relpath(filename, root)
    return filename
