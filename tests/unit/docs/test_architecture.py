"""The diagrams and tables of ARCHITECTURE.md against the code."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import pytest

from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.lifecycle import RULES, RUNNING

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PACKAGES, STATUSES = re.findall(r"```mermaid\n(.*?)```", TEXT, re.DOTALL)
#: Module -> name of the subgraph, and directory.
HOUSES = {"sagelet_api": ("api", ROOT / "api"), "sagelet_engine": ("engine", ROOT / "emulator")}
#: Nodes whose names are not those of their packages. A node may stand for two.
NODES = {"comparisonapi": ("comparison",), "hubapi": ("hub",), "root": ("engine", "machine")}


def rooms(node: str) -> tuple[str, ...]:
    name = re.sub(r"\[.*", "", node.strip())
    return NODES.get(name, (name.removesuffix(".py"),))


def arrows(graph: str) -> set[tuple[str, str]]:
    """Returns the arrows `a & b --> c --> d` as pairs of packages."""
    found: set[tuple[str, str]] = set()
    for line in graph.splitlines():
        stops = [[room for node in stop.split("&") for room in rooms(node)] for stop in line.split("-->")]
        for begin, end in pairwise(stops):
            found |= set(product(begin, end))
    return found


def below(pairs: set[tuple[str, str]], room: str) -> set[str]:
    """Returns all packages that arrows lead to from one."""
    found, ways = set[str](), [room]
    while ways:
        here = ways.pop()
        ways += [end for begin, end in pairs if begin == here and end not in found]
        found |= {end for begin, end in pairs if begin == here}
    return found


def imports(module: str, directory: Path) -> Iterator[tuple[str, str]]:
    """Yields the packages of a module that import each other, as pairs."""
    base = directory / module
    for path in base.rglob("*.py"):
        importer = path.relative_to(base).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name.name}" for name in node.names]
            else:
                names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            for parts in (name.split(".") for name in names):
                if parts[0] == module and len(parts) > 1 and parts[1] != importer:
                    yield importer, parts[1]


@pytest.mark.parametrize("module", HOUSES)
def test_the_diagram_has_every_package_and_every_import(module: str) -> None:
    subgraph, directory = HOUSES[module]
    drawn = re.search(rf"subgraph {subgraph}\[.*?\n(.*?)\n    end", PACKAGES, re.DOTALL)
    assert drawn
    pairs = arrows(drawn[1])
    shown = {room for pair in pairs for room in pair}
    packages = {path.parent.name for path in (directory / module).glob("*/__init__.py")}
    assert packages <= shown
    assert [room for room in shown - packages if not (directory / module / f"{room}.py").is_file()] == []
    made = {pair for pair in imports(module, directory) if shown.issuperset(pair)}
    assert {(begin, end) for begin, end in made if end not in below(pairs, begin)} == set()
    assert {room for room in shown if room in below(pairs, room)} == set(), "a circle"


def test_the_diagram_of_a_job_is_the_table_of_statuses() -> None:
    lines = re.findall(r"^\s*(\S+) --> (\S+?)(?::.*)?$", STATUSES, re.MULTILINE)
    drawn = {
        (status, SecondaryStatus(end))
        for begin, end in lines
        if begin != "[*]"
        for status in (RUNNING if begin == "Running" else (SecondaryStatus(begin),))
    }
    assert {f"{begin.value} --> {end.value}" for begin, end in drawn if begin not in RULES[end].follows} == set()
    assert {status for pair in drawn for status in pair} == set(RULES)
    inner = re.search(r"state Running \{(.*?)\}", STATUSES, re.DOTALL)
    assert inner
    inside = {name for line in inner[1].splitlines() for name in re.findall(r"\w+(?= -->)|(?<=--> )\w+", line)}
    assert {SecondaryStatus(name) for name in inside} == {*RUNNING}


@pytest.mark.parametrize("module", HOUSES)
def test_every_package_has_a_readme_and_the_tables_lead_to_it(module: str) -> None:
    base = HOUSES[module][1] / module
    for package in sorted(path.parent for path in base.glob("*/__init__.py")):
        readme = package / "README.md"
        assert readme.is_file(), package.name
        assert f"]({readme.relative_to(ROOT).as_posix()})" in TEXT, package.name
