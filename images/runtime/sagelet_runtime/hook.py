"""Runs our patches right after the user's own `import torch_xla`; without that import nothing happens."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import abc, machinery
from types import ModuleType
from typing import Any

from sagelet_runtime import debugging
from sagelet_runtime.say import say

#: When this Python started, ms since the epoch: sitecustomize imports this module.
STARTED_MS = time.time_ns() // 1_000_000


def _nothing() -> None:
    """Done before an import."""


class PostImport(abc.MetaPathFinder):
    """Lets Python import `name` as it would, then calls `after` with the module, once. Calls `before` first."""

    def __init__(self, name: str, after: Callable[[ModuleType], None], before: Callable[[], None] = _nothing) -> None:
        self._name = name
        self._after = after
        self._before = before

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        """May be called many times before the import: libraries ask in this way whether a package is there."""
        if fullname != self._name:
            return None
        for finder in self._later():
            spec: machinery.ModuleSpec | None = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._before, self._imported)
                return spec
        return None

    def _later(self) -> list[Any]:
        """The finders after this one. Those before it have been asked; another hook of the module among them asks here.

        None at all once the module is imported: another thread may still have this finder at hand.
        """
        finders: list[Any] = list(sys.meta_path)
        return finders[finders.index(self) + 1 :] if self in finders else []

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
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._before()
        self._own.exec_module(module)
        self._after(module)


def after(name: str, patch: Callable[[Any], None]) -> None:
    """Patches the module `name` once it is imported. A patch that does not fit it is named in the log and left out."""

    def patched(module: ModuleType) -> None:
        try:
            patch(module)
        except (AttributeError, ImportError, KeyError, TypeError, ValueError) as error:
            say(f"{patch.__module__} does not fit {module.__name__} and is left out: {error!r}")

    sys.meta_path.insert(0, PostImport(name, patched))


def activate() -> None:
    """Installs the hooks in this process."""
    from sagelet_runtime import missing_gpu, saving, shuffling
    from sagelet_runtime.hugging_face import alone, half, loading

    debugging.name_files(os.environ)
    sys.meta_path.insert(0, PostImport("torch_xla", install, before=_leave_the_log_alone))
    after(saving.MODULE, saving.install)
    after(saving.TRAINER, saving.install_trainer)
    after(shuffling.MODULE, shuffling.install)
    after(loading.MODULE, loading.install)
    after(alone.MODULE, alone.install)
    if missing_gpu.is_compiled(os.environ):
        after(half.MODULE, half.install_compiled)
    after(half.MODULE, _dated)


def activate_native() -> None:
    """Installs the hooks of a native job: they count, keep the script's log its own, and old libraries off XLA.

    Libraries import torch_xla to see whether it is there.
    """
    from sagelet_runtime.hugging_face import alone

    after(alone.MODULE, alone.install)
    sys.meta_path.insert(0, PostImport("torch", install_native))
    sys.meta_path.insert(0, PostImport("torch_xla", _changed_nothing, before=_leave_the_log_alone))
    for library in ("transformers", "accelerate"):
        sys.meta_path.insert(0, PostImport(library, _changed_nothing, before=partial(_hide_torch_xla, library)))
    sys.meta_path.insert(0, PostImport("transformers.training_args", _dated_native))


def _leave_the_log_alone() -> None:
    """Imported here: a process that never imports torch_xla needs no logging."""
    from sagelet_runtime import script_log

    script_log.install()


def _changed_nothing(_module: ModuleType) -> None:
    """In a native job the module stays as it is."""


def _hide_torch_xla(library: str) -> None:
    from sagelet_runtime.hugging_face import dated

    dated.hide_torch_xla(library)


def _dated_native(training_args: ModuleType) -> None:
    from sagelet_runtime.hugging_face import dated

    dated.install_native(training_args)


def _dated(training_args: ModuleType) -> None:
    from sagelet_runtime.hugging_face import dated

    dated.install(training_args)


def install(torch_xla: Any) -> None:
    """Applies every patch. One that does not fit this torch_xla is named in the log and left out.

    Not so the world of workers: without it each of them would train alone.
    """
    from sagelet_runtime import (
        amp,
        compat,
        gpu,
        loading,
        older,
        opened,
        optimizers,
        spawn,
        spawn_modules,
        ties,
        uncompiled,
    )
    from sagelet_runtime.reporting import compiled
    from sagelet_runtime.world import install as world

    older.install(torch_xla)
    is_compiled = uncompiled.NOT_COMPILED not in os.environ
    if is_compiled:
        world.install(torch_xla)
        spawn.install(torch_xla)
    parts = (gpu, debugging, compat, amp, loading, ties, optimizers, opened, compiled, spawn_modules)
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
