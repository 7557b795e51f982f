"""Stands in for packages of AWS's images that are not available, or do nothing here.

The finder is asked last, so a package that requirements.txt installs under one of the names comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import abc, machinery
from pathlib import Path
from types import ModuleType

NAMES = frozenset({"smdebug"})
_PLACE = str(Path(__file__).with_name("absent"))


class StandIns(abc.MetaPathFinder):
    """Finds the packages in `absent/`. It is the last finder on sys.meta_path."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - part of the name's contract
        target: ModuleType | None = None,
    ) -> machinery.ModuleSpec | None:
        return machinery.PathFinder.find_spec(fullname, [_PLACE], target) if fullname in NAMES else None


def activate() -> None:
    sys.meta_path.append(StandIns())
