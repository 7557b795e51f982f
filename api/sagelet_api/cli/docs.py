"""`sagelet docs`: the documentation, which travels with sagelet, so that remedies name pages that everybody has."""

import difflib
from pathlib import Path, PurePosixPath

import click

import sagelet_api
from sagelet_api.cli.text import printable
from sagelet_engine.base.errors import SageletError

#: Directories of pages, and pages beside them.
_FOLDERS = ("tutorial", "how-to", "reference", "explanation")
_PAGES = ("glossary.md", "benchmarks.md", "reliability.md")


class NoPage(SageletError):
    """There is no such page."""


@click.command()
@click.argument("name", required=False, metavar="[PAGE]")
def docs(name: str | None) -> None:
    """Print a page of the documentation.

    Without PAGE, the names and titles of all pages. A page is Markdown: `sagelet docs hub | less`.
    """
    pages = all_pages()
    if name is None:
        width = max(map(len, pages))
        for one, path in pages.items():
            click.echo(f"{one:{width}}  {_title(path)}")
        return
    # As links of pages name it, too: docs/how-to/hub.md.
    whole = name.removeprefix("docs/").removesuffix(".md")
    wanted = whole if whole in pages else PurePosixPath(whole).name
    if wanted not in pages:
        near = difflib.get_close_matches(wanted, pages, 1)
        guess = f" Did you mean `sagelet docs {near[0]}`?" if near else ""
        raise NoPage(f"There is no page {printable(name)}.{guess} `sagelet docs` lists them")
    click.echo(pages[wanted].read_text(encoding="utf-8"), nl=False)


def all_pages() -> dict[str, Path]:
    """Returns the pages by name, by directory. A name that is taken has its directory before it."""
    root = _root()
    found: dict[str, Path] = {}
    for folder in _FOLDERS:
        for path in sorted((root / folder).glob("*.md")):
            found[f"{folder}/{path.stem}" if path.stem in found else path.stem] = path
    return found | {path.stem: path for path in (root / name for name in _PAGES)}


def _root() -> Path:
    """Returns the wheel's pages, or the checkout's."""
    here = Path(sagelet_api.__file__).parent
    packed = here / "_docs"
    return packed if packed.is_dir() else here.parents[1] / "docs"


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as lines:
        return next(lines, "").removeprefix("# ").strip()
