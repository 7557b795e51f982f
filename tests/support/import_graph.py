"""Who imports whom: sagelet's modules, as grimp reads them, and the files of its tests."""

import ast
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
#: Of the product.
PACKAGES = ("sagelet", "sagelet_api", "sagelet_engine", "sagelet_runtime")


def imported_by(path: Path, known: Iterable[str]) -> set[str]:
    """Returns those of the `known` modules that a file's import statements name, at its top or in a function."""
    modules, names = set(known), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            names |= submodules
            # `from package import module` runs the package, too, but is about the module.
            names |= {node.module} if len(submodules) < len(node.names) else set()
    return names & modules


class Imports:
    """The imports among sagelet's modules and the files of its tests.

    A module of the product has its dotted name, a file of tests the name by which other files of tests import it, such
    as `support.world` and `unit.doctor.test_rules`. Imports by name and programs that are started are not seen.
    """

    def __init__(self) -> None:
        # grimp's cache goes by the times of files: of a checkout of another age it says what is not there any more.
        self.product = grimp.build_graph(*PACKAGES, cache_dir=None)
        self.tests = {
            ".".join(path.relative_to(TESTS).with_suffix("").parts): path
            for path in sorted(TESTS.rglob("*.py"))
            if not path.is_relative_to(TESTS / "period" / "scripts")
        }

    @cached_property
    def of_tests(self) -> Mapping[str, set[str]]:
        """What each file of tests imports, of the product and of the tests."""
        known = self.product.modules | self.tests.keys()
        return {name: imported_by(path, known) for name, path in self.tests.items()}

    @cached_property
    def _importers(self) -> Mapping[str, set[str]]:
        importers: dict[str, set[str]] = defaultdict(set)
        for module in self.product.modules:
            for imported in self.product.find_modules_directly_imported_by(module):
                importers[imported].add(module)
        for name, imports in self.of_tests.items():
            for imported in imports:
                importers[imported].add(name)
        return importers

    def reached(self, names: Iterable[str]) -> set[str]:
        """Returns what is imported by `names`, also through others, and the packages of that."""
        reached: set[str] = set()
        left = [*names]
        while left:
            if (name := left.pop()) in reached:
                continue
            reached.add(name)
            tested = self.of_tests.get(name)
            left += tested if tested is not None else self.product.find_modules_directly_imported_by(name)
            if (package := name.rpartition(".")[0]) in self.product.modules:
                left.append(package)
        return reached

    def distances(self, modules: Iterable[str]) -> dict[str, int]:
        """Returns whoever imports the modules, also through others, and through how many imports."""
        distances = dict.fromkeys(modules, 0)
        left = deque(distances)
        while left:
            module = left.popleft()
            for importer in self._importers.get(module, ()):
                if importer not in distances:
                    distances[importer] = distances[module] + 1
                    left.append(importer)
        return distances
