"""What the templates show of a comparison: texts, in order."""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from sagelet_api.comparison.pictures import captions, pictures
from sagelet_api.comparison.svg import svg
from sagelet_api.comparison.wording import change_text, in_words, value_text, verdict
from sagelet_engine.comparison.comparable import Difference
from sagelet_engine.comparison.result import Comparison, Job, Row

#: The sentences below each picture of two jobs.
_BESIDE = {"throughput": ("speed",), "loss": ("loss",), "time": ("runtime",), "cost": ("billable", "cost")}


@dataclass(frozen=True)
class Cell:
    value: str
    change: str
    #: better, worse or empty.
    verdict: str


@dataclass(frozen=True)
class TableRow:
    title: str
    source: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Stats:
    """The Trainers' summaries: the notebook's table."""

    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class View:
    title: str
    jobs: tuple[Job, ...]
    blocking: tuple[Difference, ...]
    differing: tuple[Difference, ...]
    #: Heading and sentences, job by job.
    words: tuple[tuple[str, tuple[str, ...]], ...]
    #: Picture, caption, sentences.
    pictures: tuple[tuple[Markup, str, tuple[str, ...]], ...]
    rows: tuple[TableRow, ...]
    stats: Stats
    remarks: tuple[str, ...]


def view(comparison: Comparison) -> View:
    return View(
        title(comparison),
        comparison.jobs,
        tuple(one for one in comparison.differences if one.blocks),
        tuple(one for one in comparison.differences if not one.blocks),
        tuple(in_words(comparison)),
        tuple(_pictures(comparison)),
        tuple(table_row(row) for row in comparison.rows),
        _stats(comparison),
        comparison.remarks,
    )


def title(comparison: Comparison) -> str:
    first, *others = comparison.jobs
    return f"{', '.join(job.name for job in others)} against {first.name}"


def table_row(row: Row) -> TableRow:
    sources = ", ".join(dict.fromkeys(filter(None, row.sources)))
    changes = (None, *row.changes[1:])
    cells = (
        Cell(value_text(row, value), change_text(change), verdict(row, index))
        for index, (value, change) in enumerate(zip(row.values, changes, strict=True))
    )
    return TableRow(row.title, sources, tuple(cells))


def _pictures(comparison: Comparison) -> Iterator[tuple[Markup, str, tuple[str, ...]]]:
    below = captions(comparison)
    for picture in pictures(comparison):
        beside = _BESIDE[picture.name] if len(comparison.jobs) == 2 else ()
        texts = (one.text for one in comparison.sentences if one.kind in beside)
        # Every text in it was escaped when it was made.
        yield Markup(svg(picture)), below[picture.name], tuple(texts)


def _stats(comparison: Comparison) -> Stats:
    names = tuple(dict.fromkeys(name for job in comparison.jobs for name in job.summary))
    rows = tuple((job.label, tuple(_number(job.summary.get(name)) for name in names)) for job in comparison.jobs)
    return Stats(names, rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.6g}"
