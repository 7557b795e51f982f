"""Plain English as docs/style.md asks for it: no forbidden phrases, no long sentences on the pages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ("api", "emulator", "images")
#: What docs/style.md names, and a form of its riddles.
FORBIDDEN = re.compile(
    r"\bof ours\b|\bthat is none\b|\b(?:is|are|was|were|been?) told\b(?! apart)|\bwhat there is of\b"
    r"|\bnone is no error\b"
)
#: "X is no file" in the place of "X is not a file". "There is no file" and "is no faster" are plain.
IS_NO = re.compile(r"(?<!here )\b(?:is|are) (?:no (?!\w+er\b)|none of\b)")
#: Earlier names of things that have the field's names now (docs/glossary.md).
PRIVATE = re.compile(
    r"\b(?:settle[sd]?|lending|take_back|keepers?|couriers?|parcels?|announcer|tidying|front door)\b", re.I
)
#: Comments: whole lines in a row, or the end of one line.
COMMENTS = re.compile(r"^[ \t]*#.*(?:\n[ \t]*#.*)*|  # .*", re.MULTILINE)
#: Files that name these phrases on purpose.
NAMES_THEM = {"docs/style.md", "tests/unit/docs/test_plain_words.py"}
#: The longest sentence of a page, in words. docs/style.md asks for about 20. Code in backticks is one word.
LONGEST = 25
#: Pages with longer sentences.
LONG_SENTENCES = {
    # The texts of commands and of the doctor's rules, as the program prints them.
    "docs/reference/command-line.md",
    "docs/reference/doctor.md",
    # Made of the service model and of tables in code.
    "docs/reference/training-job-api.md",
    # An entry is one line of a list, and names many members at once.
    "CHANGELOG.md",
}
#: A list of names in a sentence: it may be as long as the list.
LISTS = ("SPMD (`xr.use_spmd`",)


def sources() -> Iterator[Path]:
    for source in SOURCES:
        yield from sorted((ROOT / source).rglob("*.py"))


def code() -> Iterator[Path]:
    yield from sources()
    yield from (path for path in sorted((ROOT / "tests").rglob("*.py")) if name_of(path) not in NAMES_THEM)


def pages() -> list[Path]:
    found = list(ROOT.glob("*.md"))
    for source in ("docs", "examples", "tests", *SOURCES):
        found += sorted((ROOT / source).rglob("*.md"))
    assert found
    return [page for page in found if name_of(page) not in NAMES_THEM]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def documented(tree: ast.AST) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def explained(path: Path) -> Iterator[str]:
    """Yields the docstrings of a module, and its comments. Comments on lines in a row are one text."""
    text = path.read_text()
    if not list(phrases(re.sub(r"\n\s*#:?", " ", text))):
        return  # Parsing every file takes seconds.
    for node in documented(ast.parse(text)):
        yield ast.get_docstring(node) or ""
    for comment in COMMENTS.findall(text):
        yield re.sub(r"\n\s*#:?", " ", comment)


def phrases(text: str, *kinds: re.Pattern[str]) -> Iterator[str]:
    """Yields each forbidden phrase with the text around it."""
    text = " ".join(text.split())
    for kind in kinds or (FORBIDDEN, IS_NO, PRIVATE):
        for hit in kind.finditer(text):
            yield text[max(0, hit.start() - 40) : hit.end() + 40]


def messages(tree: ast.AST) -> Iterator[str]:
    """Yields the string literals that are not docstrings."""
    docstrings = {
        id(node.body[0].value) for node in documented(tree) if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def sentences(page: str) -> Iterator[str]:
    """Yields the sentences of a page: those of paragraphs, items of lists, and cells of tables.

    Blocks of code and the figures that `make bench` and `make soak` write have none.
    """
    page = re.sub(r"```.*?```|<!-- measured ([\w-]+): begin -->.*?<!-- measured \1: end -->", "", page, flags=re.DOTALL)
    page = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", page):
        if block.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\||\n", block):
                yield from re.split(r"(?<=[.!?:;])\s+", cell.strip())
        else:
            yield from re.split(r"(?<=[.!?])[)\"*]*\s+", " ".join(block.split()))


def words(sentence: str) -> int:
    """Counts words. Code, and the address of a link, are one word or none."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", sentence))
    return sum(bool(re.search(r"\w", word)) for word in plain.split())


def test_docstrings_and_comments_have_none_of_the_forbidden_phrases() -> None:
    assert [f"{name_of(path)}: {hit}" for path in code() for text in explained(path) for hit in phrases(text)] == []


def test_pages_have_none_of_the_forbidden_phrases() -> None:
    assert [f"{name_of(page)}: {hit}" for page in pages() for hit in phrases(page.read_text())] == []


def test_messages_have_none_of_the_forbidden_phrases() -> None:
    found = [
        f"{name_of(file)}: {hit}"
        for file in sources()
        for text in messages(ast.parse(file.read_text()))
        for hit in phrases(text, FORBIDDEN, IS_NO)
    ]
    assert found == []


def test_phrases_are_found_in_docstrings_and_comments_of_several_lines(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text('"""A page is\nno file."""\n\nX = 1  # of ours\n#: The user is\n#: told so.\nY = "is told"\n')
    found = [hit for text in explained(file) for hit in phrases(text)]
    assert found == ["A page is no file.", "# of ours", "#: The user is told so."]


def test_sentences_of_pages_are_short() -> None:
    found = [
        f"{name_of(page)}: {words(sentence)} words: {sentence}"
        for page in pages()
        if name_of(page) not in LONG_SENTENCES
        for sentence in sentences(page.read_text())
        if words(sentence) > LONGEST and not sentence.startswith(LISTS)
    ]
    assert found == []


def test_a_long_sentence_is_found_in_a_paragraph_an_item_and_a_cell() -> None:
    long = "word " * LONGEST + "more"
    for page in (f"Short. {long}.\n", f"- one\n- {long}\n", f"| a | b |\n| --- | --- |\n| `c` | short; {long} |\n"):
        assert [words(one) for one in sentences(page) if words(one) > LONGEST] == [LONGEST + 1], page
    assert list(sentences("```\nsome code\n```")) == [""]


#: Names that say nothing, and how often product code gives one to a variable or a parameter. It may only fall.
EMPTY_NAMES = {"found", "one", "given", "made", "kept", "told"}
MOST_EMPTY_NAMES = 1627


def test_names_that_say_nothing_become_fewer() -> None:
    nodes = (node for source in SOURCES for path in (ROOT / source).rglob("*.py") for node in ast.walk(parsed(path)))
    stored = sum(
        node.id in EMPTY_NAMES if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else
        isinstance(node, ast.arg) and node.arg in EMPTY_NAMES
        for node in nodes
    )  # fmt: skip
    assert stored <= MOST_EMPTY_NAMES, "docs/style.md: Names"


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
