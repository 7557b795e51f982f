"""The results of a section on its page, between two marks that name the section."""

from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_MAIN = DOCS / "benchmarks.md"
#: Every section, and its page.
PAGES = {
    **dict.fromkeys(("api", "s3", "logs", "job", "tuning", "pipelines", "idle", "concurrency", "beside"), _MAIN),
    "compiled": DOCS / "explanation" / "same-model.md",
    "fixed": DOCS / "explanation" / "same-model.md",
    "models": DOCS / "explanation" / "same-model.md",
    "step": DOCS / "explanation" / "compiled-training.md",
    "slurm": DOCS / "how-to" / "slurm.md",
    "first-job": DOCS / "how-to" / "install.md",
}
#: The sections of `make bench`.
USUAL = tuple(section for section, page in PAGES.items() if page == _MAIN)


def write(section: str, text: str, page: Path | None = None) -> None:
    page = page or PAGES[section]
    before, _, after = _parts(section, page)
    page.write_text(f"{before}\n{text}\n{after}")


def read(section: str) -> str:
    return _parts(section, PAGES[section])[1].strip("\n")


def _parts(section: str, page: Path) -> tuple[str, str, str]:
    """The text before, between and after the marks. The marks belong to the first part and the last."""
    begin, end = (f"<!-- measured {section}: {which} -->" for which in ("begin", "end"))
    before, found, rest = page.read_text().partition(begin)
    text, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no place for it: {begin} ... {end}")
    return before + begin, text, end + after
