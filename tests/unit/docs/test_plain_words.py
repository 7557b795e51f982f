"""Phrases that docs/style.md forbids, in docstrings, on the pages and in messages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ("api", "emulator", "images")
#: What docs/style.md names, and two forms of its riddles.
FORBIDDEN = re.compile(r"\bof ours\b|\bthat is none\b|\b(?:is|are) told\b|\bwhat there is of it\b|\bnone is no error\b")
#: "X is no file" in the place of "X is not a file". "There is no file" is plain.
IS_NO = re.compile(r"(?<!here )\bis (?:no (?!longer\b)|none of\b)")


def files() -> Iterator[Path]:
    for source in SOURCES:
        yield from sorted((ROOT / source).rglob("*.py"))


def pages() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for source in ("docs", "examples", *SOURCES):
        yield from (ROOT / source).rglob("*.md")


def documented(tree: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def messages(tree: ast.AST) -> Iterator[str]:
    """Yields the string literals that are not docstrings."""
    docstrings = {
        id(node.body[0].value) for node in documented(tree) if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_docstrings_have_none_of_the_forbidden_phrases() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {text.group()}"
        for file in files()
        for node in documented(ast.parse(file.read_text()))
        for text in FORBIDDEN.finditer(ast.get_docstring(node) or "")
    ]
    assert found == []


def test_pages_have_none_of_the_forbidden_phrases() -> None:
    # CHANGELOG.md has them in entries of earlier days.
    there = [page for page in pages() if page.name not in ("style.md", "CHANGELOG.md")]
    assert there
    found = [
        f"{page.relative_to(ROOT)}: {text.group()}" for page in there for text in FORBIDDEN.finditer(page.read_text())
    ]
    assert found == []


def test_messages_have_none_of_the_forbidden_phrases() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for file in files()
        for text in messages(ast.parse(file.read_text()))
        if FORBIDDEN.search(text) or IS_NO.search(text)
    ]
    assert found == []
