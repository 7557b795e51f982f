"""Measured text in the pages of docs/."""

from pathlib import Path

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(page: Path, text: str) -> None:
    """Puts the text between the marks of the page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no place for it: {BEGIN} ... {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """In Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))
