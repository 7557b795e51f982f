"""Runs our patches right after the user's own `import torch_xla`; without that import nothing happens."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import abc, machinery
from types import ModuleType
from typing import Any

from sagelet_runtime import debugging
from sagelet_runtime.say import say

#: When this Python started, ms since the epoch: sitecustomize imports this module.
STARTED_MS = time.time_ns() // 1_000_000


class PostImport(abc.MetaPathFinder):
    """Lets Python import `name` as it would, then calls `after` with the module, once."""

    def __init__(self, name: str, after: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._after = after

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        """May be called many times before the import: libraries ask in this way whether a package is there."""
        if fullname != self._name:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._imported)
                return spec
        return None

    def _imported(self, module: ModuleType) -> None:
        sys.meta_path.remove(self)
        self._after(module)


class _Loader(abc.Loader):
    """The module's own loader, with a call after it."""

    def __init__(self, own: Any, after: Callable[[ModuleType], None]) -> None:
        self._own = own
        self._after = after

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        self._after(module)


def activate() -> None:
    """Installs the hooks in this process."""
    from sagelet_runtime import saving

    debugging.name_files(os.environ)
    sys.meta_path.insert(0, PostImport("torch_xla", install))
    sys.meta_path.insert(0, PostImport(saving.MODULE, saving.install))


def activate_native() -> None:
    """Installs the hook of a native job, which only counts."""
    sys.meta_path.insert(0, PostImport("torch", install_native))


def install(torch_xla: Any) -> None:
    """Applies every patch. One that does not fit this torch_xla is named in the log and left out.

    Not so the world of workers: without it each of them would train alone.
    """
    from sagelet_runtime import amp, compat, gpu, opened, optimizers, spawn, spawn_modules, ties, uncompiled
    from sagelet_runtime.reporting import compiled
    from sagelet_runtime.world import install as world

    is_compiled = uncompiled.NOT_COMPILED not in os.environ
    if is_compiled:
        world.install(torch_xla)
        spawn.install(torch_xla)
    parts = (gpu, debugging, compat, amp, ties, optimizers, opened, compiled, spawn_modules)
    for part in parts if is_compiled else (uncompiled,):
        try:
            part.install(torch_xla)
        except (AttributeError, ImportError, TypeError) as error:
            release = getattr(torch_xla, "__version__", "of an unknown version")
            say(f"{part.__name__} does not fit torch_xla {release} and is left out: {error!r}")


def install_native(torch: Any) -> None:
    from sagelet_runtime.reporting import native

    try:
        native.install(torch)
    except (AttributeError, ImportError, TypeError) as error:
        say(f"the report does not fit torch {getattr(torch, '__version__', 'of an unknown version')}: {error!r}")
