"""The pages for people: every link leads somewhere, every page can be found."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
KINDS = ("tutorial", "how-to", "reference", "explanation")
LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)|!\[[^]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


FOLDERS = (".github", "api", "docs", "emulator", "examples", "images", "tests")


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md"))])


def links(page: Path) -> list[str]:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    return [first or second for first, second in LINK.findall(text)]


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    listed = {(DOCS / link).resolve() for link in links(DOCS / "README.md")}
    assert {page for kind in KINDS for page in (DOCS / kind).rglob("*.md")} <= listed


def test_every_page_is_of_a_kind() -> None:
    assert {page.parent.name for page in DOCS.rglob("*.md")} <= {"docs", *KINDS}
