"""`make test` proves what tests/layers.toml says: every directory, package, protocol and runtime has a chosen test."""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import layers_table
import pytest

from sagelet_engine.settings import RuntimeChoice
from support.import_graph import Imports
from support.layers import TESTS, Choice, Chosen, Layer, entries, layers
from support.protocol_requests import protocols_of, service_model

ROOT = TESTS.parent
CHOICE, LAYERS = Choice(), layers()
PARTLY = [layer for layer in LAYERS.values() if layer.chosen is not None]
CHOSEN = [(layer, choice) for layer in PARTLY for choice in layer.chosen or ()]
#: Services whose protocols are all of AWS's: sagelet's own and, of moto's, one for each other protocol.
SERVICES = ("sagemaker", "logs", "sts", "iam", "s3", "lambda", "ec2", "cloudwatch", "sqs", "events", "ecr")


@cache
def _functions(path: Path) -> dict[str, str]:
    """Returns the source of each test of a file, with its decorators."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    return {
        node.name: "\n".join(
            lines[min([node.lineno, *(made.lineno for made in node.decorator_list)]) - 1 : node.end_lineno]
        )
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _runs(node: str) -> bool:
    """True if `make test` runs the test, written as in the tables of tests/layers.toml."""
    directory, _, name = node.partition(".py")[0].rpartition("/")
    chosen = Chosen.of(f"{name}{node[node.index('.py') :]}")
    path = TESTS / directory / chosen.file
    parameter = f"[{chosen.parameter}]" if chosen.parameter else ""
    names = [chosen.test] if chosen.test else [*_functions(path)]
    assert set(names) <= set(_functions(path)), node
    return all(CHOICE.is_chosen(path, f"{test}{parameter}") for test in names)


def test_every_directory_of_tests_is_a_layer() -> None:
    directories = {
        path.parent.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("test_*.py")
        if not path.is_relative_to(TESTS / "period" / "scripts")
    }
    assert directories == set(LAYERS)


@pytest.mark.parametrize(("layer", "choice"), CHOSEN, ids=[f"{layer.directory}-{choice}" for layer, choice in CHOSEN])
def test_every_chosen_test_is_there(layer: Layer, choice: Chosen) -> None:
    path = TESTS / layer.directory / choice.file
    assert choice.test is None or choice.test in _functions(path)
    # That of a range of seeds is computed.
    if choice.parameter is not None and not re.fullmatch(r"\d+-\d+", choice.parameter):
        around = path.with_name("conftest.py")
        texts = [file.read_text(encoding="utf-8") for file in (path, around) if file.exists()]
        assert any(f'"{choice.parameter}"' in text for text in texts)


def test_a_choice_has_a_reason() -> None:
    assert [layer.directory for layer in PARTLY if not layer.because] == []


def _is_run(path: Path) -> bool:
    return path.name.startswith("test_") and any(CHOICE.is_chosen(path, test) for test in _functions(path))


def test_every_module_is_reached_by_a_chosen_test() -> None:
    imports = Imports()
    chosen = [name for name, path in imports.tests.items() if path.name == "conftest.py" or _is_run(path)]
    named = entries()["by_name"]
    unreached = imports.product.modules - imports.reached(chosen)
    assert {module for module in unreached if not _below(module, named)} == set()
    assert [name for name in named if not any(_below(module, [name]) for module in unreached)] == []
    assert [node for node in named.values() if not _runs(node)] == []


def _below(module: str, packages: Iterable[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def test_every_protocol_has_a_chosen_test() -> None:
    named = entries()["protocols"]
    assert {protocol for name in SERVICES for protocol in protocols_of(service_model(name))} == set(named)
    assert [node for node in named.values() if not _runs(node)] == []


def test_every_runtime_has_a_chosen_compiled_job() -> None:
    named = entries()["compiled_jobs"]
    assert set(named) == {choice.value for choice in RuntimeChoice} - {RuntimeChoice.AUTO.value}
    assert [node for node in named.values() if not _runs(node)] == []


def test_make_test_makes_the_environments_that_the_chosen_tests_need() -> None:
    markers = dict(
        re.findall(r'^    "(\w+): .*\(`make (setup-\w+)`\)', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    )
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    makes = set(re.findall(r"\n(test: .*)\n\t@echo \"make test: ", makefile)[0].split()[1:])
    needed = set()
    for layer, choice in CHOSEN:
        path = TESTS / layer.directory / choice.file
        tests = _functions(path)
        of_file = re.findall(r"^pytestmark = .*", path.read_text(encoding="utf-8"), re.MULTILINE)
        texts = [*of_file, *([tests[choice.test]] if choice.test else tests.values())]
        needed |= {markers[name] for text in texts for name in re.findall(r"mark\.(\w+)", text) if name in markers}
    assert needed == makes - {"setup"}


def test_contributing_has_the_table() -> None:
    assert layers_table.PAGE.read_text(encoding="utf-8") == layers_table.page(), "run `make docs`"
