"""Shows a comparison in the terminal."""

from collections.abc import Iterator, Sequence
from itertools import chain

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sagelet_api.comparison.view import table_row, title
from sagelet_api.comparison.wording import in_words, value_text
from sagelet_engine.comparison.repeated import BETTER, NOISY, SAME, WORSE, Verdict, in_sentences
from sagelet_engine.comparison.result import Comparison, Row

_STYLES = {"better": "green", "worse": "red", "": ""}
#: Before numbers that are below their title.
_INDENT = 2
#: Wider than every table.
_ANY = 10_000
_VERDICTS = {BETTER: "green", WORSE: "red", SAME: "", NOISY: "yellow"}


def show(comparison: Comparison, console: Console) -> None:
    console.print(Text(title(comparison), "bold"))
    for one in comparison.differences:
        kind, style = ("NOT COMPARABLE", "bold red") if one.blocks else ("differs", "yellow")
        _paragraph(console, Text.assemble((f"{kind}: ", style), f"{one.job}: {one.text}."))
    console.print()
    for heading, sentences in in_words(comparison):
        if heading:
            console.print(Text(heading, "bold"))
        for sentence in sentences:
            _paragraph(console, Text(sentence))
    console.print()
    _figures(console, *_by_job(comparison))
    console.print()
    for remark in comparison.remarks:
        _paragraph(console, Text(f"{remark}.", "dim"))


def show_verdict(verdict: Verdict, console: Console) -> None:
    """Shows medians, intervals and verdicts of repeated runs, then the conclusion in words."""
    groups = [[label] for label in (*verdict.labels, "ratio", "95 % interval", f"{verdict.labels[1]} is")]
    rows = []
    for one in verdict.figures:
        row = Row(one.key, one.title, one.unit, "", (one.first, one.second), (), ())
        first, second = (Text(value_text(row, value)) for value in row.values)
        interval = Text(f"{one.low:.3f} to {one.high:.3f}")
        found = Text(one.verdict, _VERDICTS[one.verdict])
        rows.append((one.title, [[first], [second], [Text(f"{one.ratio:.3f}")], [interval], [found]]))
    console.print(Text(f"{verdict.pairs} pairs, trained in turn; medians", "bold"))
    console.print()
    _figures(console, groups, rows)
    console.print()
    for sentence in in_sentences(verdict):
        _paragraph(console, Text(sentence))


#: Columns that stay side by side: a job's figures and their changes.
Cells = list[Text]
#: A figure's title, and its cells in each group of columns.
FigureRow = tuple[str, list[Cells]]


def _by_job(comparison: Comparison) -> tuple[list[list[str]], list[FigureRow]]:
    """Returns the headings of each job's columns, and the rows."""
    first, *others = comparison.jobs
    headings = [[first.label], *([job.label, ""] for job in others)]
    rows = []
    for row in comparison.rows:
        shown = table_row(row)
        cells = [[Text(cell.value), Text(cell.change, _STYLES[cell.verdict])] for cell in shown.cells[1:]]
        rows.append((shown.title, [[Text(shown.cells[0].value)], *cells]))
    return headings, rows


def _figures(console: Console, headings: list[list[str]], rows: list[FigureRow]) -> None:
    """Prints a line for each figure. On a terminal that is too narrow for that, the numbers are below the titles.

    A table whose cells wrap cannot be read. Without a terminal the console is as wide as needed.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ["", *chain(*headings)]:
        table.add_column(Text(heading), justify="right" if table.columns else "left", no_wrap=True)
    for name, groups in rows:
        table.add_row(Text(name), *chain(*groups))
    if Measurement.get(console, console.options.update(width=_ANY), table).maximum <= console.width:
        console.print(table)
        return
    lines = [("", [[Text(one, "bold") for one in group] for group in headings]), *rows]
    for part in _parts(lines, console.width):
        _below_titles(console, part)


def _parts(lines: list[FigureRow], width: int) -> Iterator[list[FigureRow]]:
    """Divides the groups of columns into as many tables as the width asks for, each with all titles."""
    widths = [sum(_widths([groups[index] for _, groups in lines])) for index in range(len(lines[0][1]))]
    begin, room = 0, width - _INDENT
    for index, needed in enumerate(widths):
        if index > begin and needed > room:
            yield [(name, groups[begin:index]) for name, groups in lines]
            begin, room = index, width - _INDENT
        room -= needed
    yield [(name, groups[begin:]) for name, groups in lines]


def _below_titles(console: Console, lines: list[FigureRow]) -> None:
    widths = _widths([list(chain(*groups)) for _, groups in lines])
    for name, groups in lines:
        if name:
            console.print(Text(name))
        line = Text(" " * _INDENT)
        for cell, width in zip(chain(*groups), widths, strict=True):
            line += Text(" " * (width - cell.cell_len)) + cell
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ellipsis")


def _widths(rows: Sequence[Cells]) -> list[int]:
    """Returns the width of each column, with the blanks before it."""
    return [2 + max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]


def _paragraph(console: Console, text: Text) -> None:
    console.print(Padding(text, (0, 0, 0, 2), expand=False))
