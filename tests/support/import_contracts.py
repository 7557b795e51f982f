"""Contracts of `make lint` that import-linter does not bring: it sees import statements only."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.domain.helpers import module_expressions_to_modules

#: Functions that import the module that their first argument names.
_IMPORTERS = frozenset({"import_module", "__import__"})
_SQL = re.compile(
    r"\s*(SELECT\s.*\sFROM\s|INSERT\s(OR\s\w+\s)?INTO\s|UPDATE\s\w+\sSET\s|DELETE\sFROM\s|(CREATE|ALTER|DROP)\s"
    r"(UNIQUE\s)?(TABLE|INDEX|TRIGGER|VIEW)\s)",
    re.DOTALL,
)


class Place(NamedTuple):
    """Something that a contract forbids."""

    module: str
    line: int
    text: str


class _PlacesContract(Contract):
    """A contract that is broken by places in the source."""

    remedy = ""

    def places(self, graph: ImportGraph) -> Iterator[Place]:
        raise NotImplementedError

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        found = sorted(self.places(graph))
        return ContractCheck(kept=not found, metadata={"places": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for place in check.metadata["places"]:
            output.print_error(f"{place.module}:{place.line} {place.text}", bold=False)
        output.print_error(self.remedy)


class StandardLibraryContract(_PlacesContract):
    """`source_modules` and all that they import, also indirectly, are sagelet's own or the standard library's."""

    type_name = "standard_library"
    remedy = "These modules run where only Python is installed."
    source_modules = fields.SetField(subfield=fields.ModuleExpressionField())

    def places(self, graph: ImportGraph) -> Iterator[Place]:
        for importer in _reached(graph, _modules(graph, self.source_modules)):
            for imported in graph.find_modules_directly_imported_by(importer):
                root = imported.split(".")[0]
                if root not in sys.stdlib_module_names and not root.startswith("sagelet_engine"):
                    (detail, *_) = graph.get_import_details(importer=importer, imported=imported)
                    yield Place(importer, detail["line_number"], f"imports {imported}")


class ImportsByNameContract(_PlacesContract):
    """Only the imports `allowed` (`importer -> name`) are made by name.

    A name that is computed counts as what its text begins with, and `?` if that is nothing.
    """

    type_name = "imports_by_name"
    remedy = "Use an import statement, which the other contracts see, or list the import in pyproject.toml."
    allowed = fields.ListField(subfield=fields.StringField())

    def places(self, graph: ImportGraph) -> Iterator[Place]:
        rules: Sequence[Any] = self.allowed  # type: ignore[assignment]
        allowed = [tuple(rule.split(" -> ")) for rule in rules]
        for module in _house(graph):
            for line, name in _imports_by_name(module, _tree(module)):
                if not any(_within(module, importer) and _within(name, imported) for importer, imported in allowed):
                    yield Place(module, line, f"imports {name} by name")


class SqlContract(_PlacesContract):
    """SQL statements are only in the modules `allowed`, and in those below them."""

    type_name = "sql"
    remedy = "SQL belongs to a repository of the store."
    allowed = fields.SetField(subfield=fields.StringField())

    def places(self, graph: ImportGraph) -> Iterator[Place]:
        allowed: Any = self.allowed
        for module in _house(graph):
            if any(_within(module, one) for one in allowed):
                continue
            for node in ast.walk(_tree(module)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL.match(node.value):
                    yield Place(module, node.lineno, f"has SQL: {' '.join(node.value.split())[:40]}")


def _within(name: str, package: str) -> bool:
    """True if the module or one of its packages is `package`."""
    return f"{name}.".startswith(f"{package}.")


def _modules(graph: ImportGraph, expressions: Any) -> set[str]:
    return {module.name for module in module_expressions_to_modules(graph, expressions, as_packages=True)}


def _reached(graph: ImportGraph, start: Iterable[str]) -> set[str]:
    """The modules of sagelet that the first ones import, directly or not, with the first ones."""
    reached, left = set(start), list(start)
    while left:
        for imported in graph.find_modules_directly_imported_by(left.pop()):
            if imported not in reached and not graph.is_module_squashed(imported):
                reached.add(imported)
                left.append(imported)
    return reached


def _house(graph: ImportGraph) -> list[str]:
    return sorted(module for module in graph.modules if not graph.is_module_squashed(module))


def _tree(module: str) -> ast.Module:
    """Reads a module of a package, and imports none: what is linted may be broken."""
    root, *names = module.split(".")
    spec = find_spec(root)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(module)
    path = Path(spec.submodule_search_locations[0], *names)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _imports_by_name(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called in _IMPORTERS:
                yield node.lineno, _beginning(module, node.args[0]).strip(".") or "?"


def _beginning(module: str, name: ast.expr) -> str:
    """The text that a name begins with, as far as it can be known."""
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return name.value
    if isinstance(name, ast.Name) and name.id == "__name__":
        return module
    if isinstance(name, ast.JoinedStr):
        text = ""
        for part in name.values:
            known = _beginning(module, part.value if isinstance(part, ast.FormattedValue) else part)
            text += known
            if not known:
                break
        return text
    return ""
