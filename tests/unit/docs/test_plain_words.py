"""Phrases that docs/style.md forbids, in docstrings and on the pages."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: What docs/style.md names, and two forms of its riddles.
FORBIDDEN = re.compile(r"\bof ours\b|\bthat is none\b|\b(?:is|are) told\b|\bwhat there is of it\b|\bnone is no error\b")


def test_docstrings_have_none_of_the_forbidden_phrases() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {text.group()}"
        for source in ("api", "emulator", "images/runtime")
        for file in sorted((ROOT / source).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for text in FORBIDDEN.finditer(ast.get_docstring(node) or "")
    ]
    assert found == []


def test_pages_have_none_of_the_forbidden_phrases() -> None:
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "style.md"]
    assert pages
    found = [
        f"{page.relative_to(ROOT)}: {text.group()}" for page in pages for text in FORBIDDEN.finditer(page.read_text())
    ]
    assert found == []
