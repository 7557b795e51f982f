"""A comparison in the terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sagelet_api.comparison.view import table_row, title
from sagelet_api.comparison.wording import in_words
from sagelet_engine.comparison.result import Comparison

_STYLES = {"better": "green", "worse": "red", "": ""}


def show(comparison: Comparison, console: Console) -> None:
    console.print(Text(title(comparison), "bold"))
    for one in comparison.differences:
        kind, style = ("NOT COMPARABLE", "bold red") if one.blocks else ("differs", "yellow")
        _paragraph(console, Text.assemble((f"{kind}: ", style), f"{one.job}: {one.text}."))
    console.print()
    console.print(_table(comparison))
    for heading, sentences in in_words(comparison):
        if heading:
            console.print(Text(heading, "bold"))
        for sentence in sentences:
            _paragraph(console, Text(sentence))
    console.print()
    for remark in comparison.remarks:
        _paragraph(console, Text(f"{remark}.", "dim"))


def _table(comparison: Comparison) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("", overflow="fold")
    for job in comparison.jobs:
        table.add_column(Text(job.label), justify="right", overflow="fold")
        if job is not comparison.jobs[0]:
            table.add_column("", justify="right", no_wrap=True)
    for row in comparison.rows:
        shown = table_row(row)
        cells = [Text(shown.title), Text(shown.cells[0].value)]
        for cell in shown.cells[1:]:
            cells += [Text(cell.value), Text(cell.change, _STYLES[cell.verdict])]
        table.add_row(*cells)
    return table


def _paragraph(console: Console, text: Text) -> None:
    console.print(Padding(text, (0, 0, 0, 2), expand=False))
