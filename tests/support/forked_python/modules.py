"""Modules that a template has imported, and that its forks see only once they import them.

A fork begins with these modules out of `sys.modules`. Its import of one restores all modules of that import at once,
with the objects that there are. Finders before this one see the import as ever, so hooks of imports are called.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib import abc, machinery
from types import ModuleType
from typing import Any


class Restorer(abc.MetaPathFinder):
    """Finds the modules that were imported by `imported`."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        #: The names that came with an import, by each of them.
        self._groups: dict[str, list[str]] = {}
        #: Attributes that modules of earlier groups got by an import: parent, name, and the module.
        self._children: list[tuple[ModuleType, str, str]] = []

    def imported(self, root: str) -> None:
        """Imports `root`. What came with it is a group of its own, but for the standard library, which stays."""
        before = set(sys.modules)
        importlib.import_module(root)
        names = [name for name in sys.modules if name not in before and self._is_of_a_package(name)]
        for name in names:
            self._modules[name] = sys.modules[name]
            self._groups[name] = names
            parent, _, child = name.rpartition(".")
            if parent in before and parent in self._modules:
                self._children.append((self._modules[parent], child, name))

    def hidden(self, name: str) -> Any:
        """Returns a module, or what one has by this name, without restoring it."""
        if name in self._modules:
            return self._modules[name]
        module, _, attribute = name.rpartition(".")
        return getattr(self._modules[module], attribute)

    def hide(self) -> None:
        """Takes the modules out of `sys.modules` and out of their packages' attributes, as before their import."""
        for name in self._modules:
            sys.modules.pop(name, None)
        for parent, child, _ in self._children:
            vars(parent).pop(child, None)
        sys.meta_path.insert(0, self)

    def shadowed(self) -> bool:
        """True if one of these packages comes from another file by today's `sys.path`."""
        tops = {name for name in self._modules if "." not in name}
        today = {name: _origin(machinery.PathFinder.find_spec(name)) for name in tops}
        return today != {name: _origin(self._modules[name].__spec__) for name in tops}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        module = self._modules.get(fullname)
        if module is None or module.__spec__ is None:
            return None
        origin, places = module.__spec__.origin, module.__spec__.submodule_search_locations
        loader = _Loader(self, fullname, module)
        spec = machinery.ModuleSpec(fullname, loader, origin=origin, is_package=places is not None)
        spec.submodule_search_locations = places
        return spec

    def restore(self, name: str) -> None:
        """Restores the other modules of the group of `name`."""
        earlier = sys.meta_path[: sys.meta_path.index(self)]
        group = self._groups[name]
        hooked = [other for other in group if any(finder.find_spec(other, None, None) for finder in earlier)]
        for other in group:
            if other not in hooked:
                sys.modules.setdefault(other, self._modules[other])
        for parent, child, other in self._children:
            if other in group:
                setattr(parent, child, self._modules[other])
        for other in hooked:
            importlib.import_module(other)

    @staticmethod
    def _is_of_a_package(name: str) -> bool:
        spec = getattr(sys.modules[name], "__spec__", None)
        return "-packages" in (_origin(spec) or "") or name.partition(".")[0] in ("torch", "numpy", "sympy")


def _origin(spec: machinery.ModuleSpec | None) -> str | None:
    return None if spec is None else spec.origin


class _Loader(abc.Loader):
    def __init__(self, restorer: Restorer, name: str, module: ModuleType) -> None:
        self._restorer = restorer
        self._name = name
        self._module = module
        self._spec: Any = module.__spec__

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # A module of torch's settings refuses other attributes than these.
        vars(module).update(__spec__=self._spec, __loader__=self._spec.loader)
        self._restorer.restore(self._name)
