"""Defers modules until a script uses them: their import costs nothing, and the first use of a name runs them.

The module object is the same before and after, so a reference to it that a library keeps stays right.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import abc, import_module, machinery
from types import ModuleType
from typing import Any

_ONE_AT_A_TIME = threading.Lock()
_PENDING = "_sagelet_deferral"


def _nothing(_module: ModuleType) -> None:
    """The default for `loaded`."""


@dataclass(frozen=True)
class Deferral:
    #: The full name of the module.
    name: str
    #: What libraries take out of the module at their own import or call in each job, without needing the module for it.
    stand_ins: Mapping[str, Any] = field(default_factory=dict)
    #: Names of submodules that do not need the package. They are imported without it.
    alone: frozenset[str] = frozenset()
    #: Called once the module has run.
    loaded: Callable[[ModuleType], None] = _nothing
    #: Decides at the import whether to defer. False imports as usual.
    wanted: Callable[[], bool] = lambda: True


def defer(deferral: Deferral) -> None:
    """Defers the module from its next import on."""
    sys.meta_path.insert(0, _Finder(deferral))


def forwarding(module: str, name: str) -> Callable[..., Any]:
    """Returns a stand-in for a function, which runs the module when it is called."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        loaded = import_module(module)
        _load(loaded)
        return getattr(loaded, name)(*args, **kwargs)

    forward.__name__, forward.__qualname__, forward.__module__ = name, name, module
    return forward


def has_run(module: ModuleType) -> bool:
    """False for a module that is still deferred."""
    return not isinstance(module, _Deferred)


class _Deferred(ModuleType):
    """A module that has not run. Only the first use of a name that it does not have yet gets here."""

    def __getattr__(self, name: str) -> Any:
        # Tools that look through sys.modules ask for such names.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        deferral: Deferral | None = self.__dict__.get(_PENDING)
        if deferral is not None and name in deferral.alone:
            return import_module(f"{self.__name__}.{name}")
        _load(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Runs the module before somebody changes a name in it. The import system sets submodules and `__spec__`."""
        if not isinstance(value, ModuleType) and not name.startswith("__"):
            _load(self)
        ModuleType.__setattr__(self, name, value)

    def __dir__(self) -> Any:
        _load(self)
        return ModuleType.__dir__(self)


def _load(module: ModuleType) -> None:
    """Runs a deferred module, in the import system and under its locks. Another thread waits until it has run."""
    with _ONE_AT_A_TIME:
        if module.__dict__.pop(_PENDING, None) is not None:
            sys.modules.pop(module.__name__, None)
    if not has_run(module):
        import_module(module.__name__)


class _Finder(abc.MetaPathFinder):
    """Gives the module a loader that defers, and runs the package before any submodule that needs it."""

    def __init__(self, deferral: Deferral) -> None:
        self.deferral = deferral
        self.module: _Deferred | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        name = self.deferral.name
        if fullname.startswith(f"{name}."):
            return self._submodule(fullname)
        if fullname != name or (self.module is None and not self.deferral.wanted()):
            return None
        finders: list[Any] = list(sys.meta_path)
        # Another thread may still hold this finder when the module has run.
        for finder in finders[finders.index(self) + 1 :] if self in finders else []:
            spec: machinery.ModuleSpec | None = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None

    def _submodule(self, fullname: str) -> machinery.ModuleSpec | None:
        """The package may import the submodule itself. Then that one is handed out, not a second one."""
        module = self.module
        if module is None or _PENDING not in module.__dict__:
            return None
        if fullname[len(self.deferral.name) + 1 :] in self.deferral.alone:
            return None
        _load(module)
        there = sys.modules.get(fullname)
        if there is None:
            return None
        spec = machinery.ModuleSpec(fullname, _Existing(there))
        # The import system takes this one for a module that has come meanwhile, and would run it again by its own.
        there.__spec__ = spec
        return spec


class _Loader(abc.Loader):
    """The first import makes the module and does not run it. The second one, by `_load`, runs it."""

    def __init__(self, own: Any, finder: _Finder) -> None:
        self._own = own
        self._finder = finder
        self._first = finder.module is None

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType:
        if self._finder.module is None:
            self._finder.module = _Deferred(spec.name)
        return self._finder.module

    def exec_module(self, module: ModuleType) -> None:
        deferral = self._finder.deferral
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        if self._first:
            module.__dict__.update(deferral.stand_ins)
            module.__dict__[_PENDING] = deferral
            return
        for name, function in deferral.stand_ins.items():
            if module.__dict__.get(name) is function:
                del module.__dict__[name]
        self._own.exec_module(module)
        module.__class__ = ModuleType
        sys.meta_path.remove(self._finder)
        deferral.loaded(module)


class _Existing(abc.Loader):
    """Hands out a module that has been imported."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType:  # noqa: ARG002 - the import system's signature
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec
