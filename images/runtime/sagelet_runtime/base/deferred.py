"""Defers what a library imports at its head and few jobs use, until the library calls it.

The code of the importing module gets another name for the package that it imports from: that of a module whose
attributes stand for the real ones. No other module sees it, so whoever imports the package by name gets the real one.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import abc, import_module, machinery
from types import CodeType, ModuleType
from typing import Any

from sagelet_runtime.base.import_hook import found_later


class Deferred:
    """Stands for a function or a module until it is called or asked for an attribute."""

    def __init__(self, source: str, name: str, importer: str) -> None:
        self.__source, self.__name, self.__importer = source, name, importer

    def __real(self) -> Any:
        """Returns the real one. From now on the importing module has it in place of this."""
        real = resolve(self.__source, self.__name)
        importer = vars(sys.modules[self.__importer])
        if importer.get(self.__name) is self:
            importer[self.__name] = real
        return real

    @property
    def __wrapped__(self) -> Any:
        """Lets `inspect` see the real one's signature."""
        return self.__real()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__real(), name)

    def __reduce__(self) -> Any:
        return resolve, (self.__source, self.__name)


class _Source(ModuleType):
    """Takes a package's place in one importing module."""

    def __init__(self, source: str, names: Sequence[str], importer: str) -> None:
        super().__init__(f"{source} of {importer}")
        self.__source = source
        vars(self).update({name: Deferred(source, name, importer) for name in names})

    def __getattr__(self, name: str) -> Any:
        # The import statement asks for `__path__`.
        if name.startswith("__"):
            raise AttributeError(name)
        # Another release may import more.
        return resolve(self.__source, name)


class Finder(abc.MetaPathFinder):
    """Finds the importing modules, and gives them a loader that defers."""

    def __init__(self, importers: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        """`importers` maps a module to the packages that it imports from, and those to the names that are deferred.
        The packages must be dotted: only an import statement has such a name in its code.
        """
        self._importers = importers

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        if fullname not in self._importers:
            return None
        spec = found_later(self, fullname, path, target)
        if spec is not None and isinstance(spec.loader, machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader, self._importers[fullname])
        return spec


class _Loader(abc.Loader):
    def __init__(self, own: machinery.SourceFileLoader, sources: Mapping[str, Sequence[str]]) -> None:
        self._own = own
        self._sources = sources

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        code = self._own.get_code(module.__name__)
        assert code is not None, "a file of Python has code"
        stand_ins = {name: _Source(name, names, module.__name__) for name, names in self._sources.items()}
        ours = {stand_in.__name__: stand_in for stand_in in stand_ins.values()}
        sys.modules.update(ours)
        try:
            exec(_renamed(code, {name: stand_in.__name__ for name, stand_in in stand_ins.items()}), vars(module))
        finally:
            for name in ours:
                sys.modules.pop(name, None)


def resolve(source: str, name: str) -> Any:
    """Returns an attribute of a module, or its submodule of that name. Raises ImportError or AttributeError."""
    module = import_module(source)
    if not hasattr(module, name) and hasattr(module, "__path__"):
        return import_module(f"{source}.{name}")
    return getattr(module, name)


def _renamed(code: CodeType, names: Mapping[str, str]) -> CodeType:
    """Returns the code of a module that imports from the packages of other names.

    Functions in it, which import when they are called, stay as they are.
    """
    return code.replace(co_names=tuple(names.get(name, name) for name in code.co_names))
