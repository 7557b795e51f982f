"""Calls a function with a module once the script imports it. Without that import nothing happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib import abc, machinery
from types import ModuleType
from typing import Any

from sagelet_runtime.base.say import say

#: When this Python started, ms since the epoch: sitecustomize imports this module.
STARTED_MS = time.time_ns() // 1_000_000


def _nothing() -> None:
    """The default for `before`."""


def found_later(
    finder: abc.MetaPathFinder, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> machinery.ModuleSpec | None:
    """Returns what the finders after this one on sys.meta_path find.

    The finders before it have been asked already. One of them may be another hook of the same module, which asks
    this one. None if the finder is not on sys.meta_path any more, because another thread may still hold it.
    """
    finders: list[Any] = list(sys.meta_path)
    for later in finders[finders.index(finder) + 1 :] if finder in finders else ():
        spec: machinery.ModuleSpec | None = later.find_spec(fullname, path, target)
        if spec is not None:
            return spec
    return None


class PostImport(abc.MetaPathFinder):
    """Calls `before`, lets Python import `name` as usual, then calls `after` with the module. Each is called once."""

    def __init__(self, name: str, after: Callable[[ModuleType], None], before: Callable[[], None] = _nothing) -> None:
        self._name = name
        self._after = after
        self._before = before

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        """May be called many times before the import: libraries check in this way whether a package is installed."""
        if fullname != self._name:
            return None
        spec = found_later(self, fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._before, self._imported)
        return spec

    def _imported(self, module: ModuleType) -> None:
        sys.meta_path.remove(self)
        self._after(module)


class _Loader(abc.Loader):
    """The module's own loader, with a call before and one after it."""

    def __init__(self, own: Any, before: Callable[[], None], after: Callable[[ModuleType], None]) -> None:
        self._own = own
        self._before = before
        self._after = after

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # A module of torch's settings refuses other attributes than these, if it has been imported before.
        vars(module)["__loader__"] = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._before()
        self._own.exec_module(module)
        self._after(module)


def after(name: str, patch: Callable[[Any], None]) -> None:
    """Patches the module `name` once it is imported. A patch that does not fit is named in the log and left out."""

    def patched(module: ModuleType) -> None:
        try:
            patch(module)
        except (AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
            say(f"{patch.__module__} does not fit {module.__name__} and is left out: {error!r}")

    sys.meta_path.insert(0, PostImport(name, patched))
