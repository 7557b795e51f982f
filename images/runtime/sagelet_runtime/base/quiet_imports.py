"""Spares a script the garbage collections that the imports of its big libraries cause.

torch and Transformers make a million objects that stay until the end. While they are imported, Python's collector walks
them again and again, and it does so once more for each full collection and at the end of the process. So it pauses
during these imports, and the objects are frozen afterwards (`gc.freeze`), which it does not walk.

A script must not notice. So gc's functions answer as if nothing was paused, and those that see frozen objects, or
that depend on them, first unfreeze. At the end of a process nobody calls the finalizer of a frozen object in a cycle,
so a file might not be flushed. If the script made an object with a finalizer before an import, all are unfrozen then.
"""

from __future__ import annotations

import atexit
import functools
import gc
import io
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import abc, machinery
from types import GeneratorType, ModuleType
from typing import Any, cast

from sagelet_runtime.base.import_hook import found_later

#: 0 turns this off.
VARIABLE = "SAGELET_QUIET_IMPORTS"
PACKAGES = frozenset({"accelerate", "datasets", "torch", "torch_xla", "transformers"})
#: New objects of an import for which it is worth looking at the script's own.
MANY = 20_000
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_FILES = frozenset({io.BufferedRandom, io.BufferedReader, io.BufferedWriter, io.FileIO, io.TextIOWrapper})
#: gc's functions that see frozen objects, or count them.
_SEEING = ("freeze", "get_freeze_count", "get_objects", "get_referrers", "unfreeze")


class Collector:
    """Python's garbage collector, paused during imports. `module` is `gc` itself."""

    def __init__(self, module: Any = gc) -> None:
        self._gc = module
        self._own = {name: getattr(module, name) for name in ("collect", "disable", "enable", "isenabled", *_SEEING)}
        self._lock = threading.RLock()
        #: Imports that run, one within the other.
        self.imports = 0
        #: What the script has asked for, while the collector is paused.
        self._wanted = False
        #: True until the script looks at its objects itself.
        self._freezes = True
        #: True if an object of the script's own, which may be frozen, has a finalizer.
        self._has_finalizers = False

    def install(self) -> None:
        """Replaces gc's functions, and freezes what Python itself has made at its start."""
        own = self._own
        replaced: dict[str, Callable[..., Any]] = {name: self._seeing(own[name]) for name in _SEEING}
        replaced |= {"collect": self._collecting(own["collect"]), "isenabled": lambda: self._isenabled()}
        replaced |= {"enable": lambda: self._switch(on=True), "disable": lambda: self._switch(on=False)}
        for name, function in replaced.items():
            setattr(self._gc, name, functools.wraps(own[name])(function))
        os.register_at_fork(after_in_child=self._forked)
        # Functions that are registered first are called last.
        atexit.register(self._at_exit)
        own["freeze"]()

    def pause(self) -> None:
        """Begins an import. Only the outermost one counts."""
        with self._lock:
            self.imports += 1
            if self.imports == 1:
                self._wanted = self._own["isenabled"]()
                if self._wanted:
                    # From here on the youngest generation is what the import makes.
                    self._own["collect"](0)
                    self._own["disable"]()

    def end(self) -> None:
        with self._lock:
            self.imports = max(0, self.imports - 1)
            if self.imports == 0 and self._wanted:
                self._resume()

    def _resume(self) -> None:
        if self._freezes and self._gc.get_count()[0] >= MANY:
            older = [one for generation in (1, 2) for one in self._own["get_objects"](generation)]
            self._has_finalizers = self._has_finalizers or any(map(needs_finalizing, older))
            self._own["freeze"]()
        self._own["enable"]()

    def _at_exit(self) -> None:
        if self._has_finalizers:
            self._thaw()

    def _switch(self, *, on: bool) -> None:
        with self._lock:
            if self.imports:
                self._wanted = on
            else:
                self._own["enable" if on else "disable"]()

    def _isenabled(self) -> bool:
        return self._wanted if self.imports else bool(self._own["isenabled"]())

    def _thaw(self) -> None:
        with self._lock:
            if self._freezes:
                self._freezes = False
                self._own["unfreeze"]()

    def _seeing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def seeing(*args: Any, **kwargs: Any) -> Any:
            self._thaw()
            return original(*args, **kwargs)

        return seeing

    def _collecting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def collect(*args: Any, **kwargs: Any) -> Any:
            # Libraries collect to give memory back: Accelerate does at the start of each training.
            caller = sys._getframe(1).f_code.co_filename
            if not any(directory in caller for directory in _LIBRARIES):
                self._thaw()
            return original(*args, **kwargs)

        return collect

    def _forked(self) -> None:
        """In a new child: the thread that imports may not be in it, so nobody would end the pause."""
        self._lock = threading.RLock()
        if self.imports:
            self.imports = 0
            if self._wanted:
                self._own["enable"]()


def needs_finalizing(one: object) -> bool:
    """True if an object has a finalizer that still has something to do."""
    # No attribute of the object is asked for, except of these types: a proxy of a dead object would raise.
    kind: Any = type(one)
    if kind is GeneratorType:
        return cast("GeneratorType[Any, Any, Any]", one).gi_frame is not None
    if kind in _FILES:
        try:
            return not cast(io.IOBase, one).closed
        except ValueError:  # it has been detached from what it wrote to
            return False
    return any("__del__" in vars(base) for base in kind.__mro__)


class Finder(abc.MetaPathFinder):
    """Finds the modules of PACKAGES, and gives the outermost one a loader that pauses the collector."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        if self._collector.imports or fullname.partition(".")[0] not in PACKAGES:
            return None
        spec = found_later(self, fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._collector)
        return spec


class _Loader(abc.Loader):
    def __init__(self, own: Any, collector: Collector) -> None:
        self._own = own
        self._collector = collector

    def __getattr__(self, name: str) -> Any:
        """Hands on what only some loaders have. `python -m` asks for a module's code."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._own, name)

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._collector.pause()
        try:
            self._own.exec_module(module)
        finally:
            self._collector.end()


def activate() -> None:
    collector = Collector()
    collector.install()
    sys.meta_path.insert(0, Finder(collector))
