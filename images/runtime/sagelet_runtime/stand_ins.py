"""Stands in for packages of AWS's images that are not available, or do nothing here.

torch_xla has a stand-in only in jobs that ask for the compiler and that XLA does not compile. In a native job it is
absent, as in AWS's native images: libraries take its presence for a sign.

The finder is asked last, so a package that requirements.txt installs under one of the names comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import abc, machinery
from pathlib import Path
from types import ModuleType

NAMES = frozenset({"smdebug"})
TORCH_XLA = "torch_xla"
_PLACE = str(Path(__file__).with_name("absent"))


class StandIns(abc.MetaPathFinder):
    """Finds the packages in `absent/`. It is the last finder on sys.meta_path."""

    def __init__(self, names: frozenset[str] = NAMES) -> None:
        self._names = names

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - part of the name's contract
        target: ModuleType | None = None,
    ) -> machinery.ModuleSpec | None:
        return machinery.PathFinder.find_spec(fullname, [_PLACE], target) if fullname in self._names else None


def activate(*, torch_xla: bool = False) -> None:
    """`torch_xla`: whether a job that has no torch_xla gets its stand-in."""
    sys.meta_path.append(StandIns(NAMES | {TORCH_XLA} if torch_xla else NAMES))
