"""Tests start the server's own composition on fakes (`ApiWorld`, `World`). One that puts it together by hand drifts."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Files that make parts of the server themselves, which are what they test. All that these parts meet is a stand-in.
ALONE = {
    "tests/attack/test_what_is_authorised_runs.py": {"Application"},
    "tests/support/histories/world.py": {"Engine"},
    "tests/support/world.py": {"Engine"},
    "tests/unit/api/test_security.py": {"RequestGuard"},
    "tests/unit/api/test_state_events.py": {"StateEvents"},
    "tests/unit/api/test_web_actions.py": {"Sessions"},
    "tests/unit/hub/test_hub_upstream.py": {"Hub", "NotAsked", "Upstream"},
}


def parts_made(text: str, package: str = "sagelet_") -> set[str]:
    """Returns the classes of a package that a module makes, by the names that they have there."""
    nodes = [*ast.walk(ast.parse(text))]
    imports = [one for one in nodes if isinstance(one, ast.ImportFrom) and (one.module or "").startswith(package)]
    aliases = [alias for one in imports for alias in one.names if alias.name[0].isupper()]
    names = {alias.asname or alias.name: alias.name for alias in aliases}
    called = [one.func for one in nodes if isinstance(one, ast.Call)]
    return {names[one.id] for one in called if isinstance(one, ast.Name) and one.id in names}


def parts_of_server() -> set[str]:
    return parts_made((ROOT / "api/sagelet_api/serve.py").read_text(encoding="utf-8"), "sagelet_api") | {"Engine"}


def test_nobody_puts_a_server_together_by_hand() -> None:
    parts = parts_of_server()
    files = {file.relative_to(ROOT).as_posix(): file for file in (ROOT / "tests").rglob("*.py")}
    there = {name: parts & parts_made(file.read_text(encoding="utf-8")) for name, file in files.items()}
    assert {name: made for name, made in there.items() if made} == ALONE


@pytest.mark.parametrize("name", ["Application", "OwnServices", "LambdaRequests", "Engine"])
def test_it_sees_who_does(name: str) -> None:
    assert name in parts_of_server()
    assert parts_made(f"def f():\n    from sagelet_api.any import {name} as A\n    return A(1)") == {name}
    assert parts_made(f"from sagelet_api.any import {name}\ndef f(one: {name}) -> None: ...") == set()
