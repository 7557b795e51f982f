"""Measured text in the pages of docs/."""

from pathlib import Path


def write(page: Path, text: str, name: str = "") -> None:
    """Puts the text between the marks of the page; a page that has several pairs of marks names them."""
    before, _, after = _parts(page, name)
    page.write_text(f"{before}{_mark('begin', name)}\n\n{text}\n\n{_mark('end', name)}{after}")


def read(page: Path, name: str = "") -> str:
    """The text between the marks."""
    return _parts(page, name)[1].strip("\n")


def _parts(page: Path, name: str) -> tuple[str, str, str]:
    before, begin, rest = page.read_text().partition(_mark("begin", name))
    text, end, after = rest.partition(_mark("end", name))
    if not begin or not end:
        raise SystemExit(f"{page} has no place for it: {_mark('begin', name)} ... {_mark('end', name)}")
    return before, text, after


def _mark(which: str, name: str) -> str:
    return f"<!-- measured{f' {name}' if name else ''}: {which} -->"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """In Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))
