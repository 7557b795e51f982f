"""CONTRIBUTING's table of changes names what is there, and the code is as short as it says."""

import ast
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## To add something, touch this")[2]
ROWS = [line.strip("| ").split(" | ", 1) for line in TABLE.splitlines() if line.startswith("| ")][2:]
#: Where the table's paths begin.
BASES = [ROOT, *(ROOT / base for base in ("emulator/sagelet_engine", "api/sagelet_api", "images/training"))]
CHANGES = (
    "an operation of SageMaker",
    "a doctor rule",
    "a runtime",
    "an image rule",
    "a command",
    "a setting",
    "a kind of job",
    "a page",
    "an instance metric",
    "a change of the schema",
)
CODE = {
    path: path.read_text(encoding="utf-8")
    for root in ("emulator", "api", "images/runtime", "images/training")
    for path in (ROOT / root).rglob("*.py")
    if "__pycache__" not in path.parts
}
NAMES = {name for text in CODE.values() for name in re.findall(r"^\s*(?:class|def) (\w+)", text, re.MULTILINE)}
MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_A_FILE = 60, 500
MOST_LINES_OF_THE_CHANGELOG = 80


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def is_there(name: str) -> bool:
    """A target of make, a script with its interpreter, a path, or a class or function of the code."""
    if name.startswith("make "):
        return bool(re.search(rf"^{name.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE))
    name = name.removeprefix("python ")
    if name.startswith("SAGELET_"):
        return name == "SAGELET_*"
    if name in ("NAME_right.py", "NAME_wrong.py"):
        return True
    if "/" in name or "." in name:
        name = name.rstrip("/")
        return any(
            (base / name).exists() or [*base.glob(name), *base.glob(f"*/{name}"), *base.glob(f"tests/unit/*/{name}")]
            for base in BASES
        )
    return name in NAMES | {"ApiWorld", "FAILING", "KINDS", "LAST_RESORT", "WITHOUT_SCRIPT", "_MODULES"}


def test_the_table_has_the_ten_common_changes() -> None:
    assert set(CHANGES) <= {change for change, _ in ROWS}


@pytest.mark.parametrize(("change", "touch"), ROWS, ids=[change for change, _ in ROWS])
def test_every_row_names_what_is_there(change: str, touch: str) -> None:
    assert names(touch)
    assert [name for name in names(touch) if not is_there(name)] == []


def test_functions_and_files_are_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path, text in CODE.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ]
    assert long == []
    assert [path for path, text in CODE.items() if len(text.splitlines()) > MOST_LINES_OF_A_FILE] == []


def fields(node: ast.ClassDef) -> list[str]:
    """The fields of a record if more than four are of one type, in their order."""
    made = [ast.unparse(one) for one in (*node.bases, *node.decorator_list)]
    if not any(name.startswith(("NamedTuple", "dataclass")) for name in made):
        return []
    typed = [one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    types = [ast.unparse(one.annotation) for one in typed]
    return types if any(types.count(one) > 4 for one in types) else []


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts[1:])


def test_records_of_many_fields_of_one_type_are_built_by_name() -> None:
    """Two fields of one type that change places are an error that no type shows.

    What runs in a job's container is left out: it builds two such records in each step.
    """
    trees = {path: ast.parse(text) for path, text in CODE.items() if "images" not in path.relative_to(ROOT).parts}
    records = {
        (module_of(path), node.name)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and fields(node)
    }
    assert len(records) > 30
    by_place = []
    for path, tree in trees.items():
        known = {name for module, name in records if module == module_of(path)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                known |= {alias.asname or alias.name for alias in node.names if (node.module, alias.name) in records}
        by_place += [
            f"{path.relative_to(ROOT)}:{node.lineno}: {node.func.id}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known
            and len(node.args) > 4
        ]  # fmt: skip
    assert by_place == []


def test_the_architecture_is_short() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 2500
    assert text.count("```mermaid") == 2


@pytest.mark.programs("git")
def test_every_file_that_architecture_and_readmes_of_packages_name_is_there() -> None:
    known = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pages = [
        ROOT / "ARCHITECTURE.md",
        *(ROOT / name for name in known if re.match(r"(api|emulator|images)/.*README", name)),
    ]
    wrong = []
    for page in pages:
        for name in names(page.read_text(encoding="utf-8")):
            if re.fullmatch(r"[\w/.-]+\.py", name) and not any(f"/{file}".endswith(f"/{name}") for file in known):
                wrong.append(f"{page.relative_to(ROOT)}: {name}")
    assert wrong == []


def arrows(block: str) -> dict[str, set[str]]:
    """What each node of a block of the diagram may import: all that its arrows lead to."""
    found: dict[str, set[str]] = {}
    for line in re.sub(r'\["[^"]*"\]', "", block).splitlines():
        parts = [[name.strip() for name in part.split("&")] for part in line.split("-->")]
        for first, second in pairwise(parts):
            for name in first:
                found.setdefault(name, set()).update(second)
    for _ in found:
        for targets in found.values():
            targets |= {further for name in targets for further in found.get(name, ())}
    return found


#: Nodes of the diagram whose names are not those of the packages, because a node has its name once in a diagram.
NODES = {"api": {"hub": "hubapi", "comparison": "comparisonapi"}, "engine": {"engine": "root", "machine": "root"}}


@pytest.mark.parametrize("part", ["api", "engine"])
def test_the_diagram_has_every_import_between_packages_and_no_other_package(part: str) -> None:
    diagram = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("flowchart TD")[2].partition("```")[0]
    may = arrows(diagram.partition(f"subgraph {part}[")[2].partition("\n    end")[0])
    nodes = set(may) | {name for targets in may.values() for name in targets}
    package, names = f"sagelet_{part}", NODES[part]
    graph = grimp.build_graph(package, cache_dir=None)
    children = {child.removeprefix(f"{package}.") for child in graph.find_children(package)}
    assert nodes <= {names.get(child, child) for child in children}
    # Modules beside the packages are small.
    assert {child for child in children if graph.find_children(f"{package}.{child}")} <= {
        *nodes, *(child for child, node in names.items() if node in nodes)
    }  # fmt: skip
    missing = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            ends = [name.split(".")[1] for name in (importer, imported) if "." in name]
            first, second = (names.get(end, end) for end in ends) if len(ends) == 2 else ("", "")
            if {first, second} <= nodes and first != second and second not in may.get(first, ()):
                missing.add(f"{first} --> {second}")
    assert missing == set()


def test_the_changelog_of_a_version_that_nobody_has_is_one_page() -> None:
    """A merge of lines that were added to the old one would bring that back."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == 1
    assert len(text.splitlines()) <= MOST_LINES_OF_THE_CHANGELOG, "say what a user can do, not what is faster or mended"
