"""Shows a comparison in the terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sagelet_api.comparison.view import table_row, title
from sagelet_api.comparison.wording import in_words, value_text
from sagelet_engine.comparison.repeated import BETTER, NOISY, SAME, WORSE, Verdict, in_sentences
from sagelet_engine.comparison.result import Comparison, Row

_STYLES = {"better": "green", "worse": "red", "": ""}
_VERDICTS = {BETTER: "green", WORSE: "red", SAME: "", NOISY: "yellow"}


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


def show_verdict(verdict: Verdict, console: Console) -> None:
    """Shows medians, intervals and verdicts of repeated runs, then the conclusion in words."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("", *verdict.labels, "ratio", "95 % interval", f"{verdict.labels[1]} is"):
        table.add_column(heading, justify="right" if heading else "left", overflow="fold")
    for one in verdict.figures:
        row = Row(one.key, one.title, one.unit, "", (one.first, one.second), (), ())
        values = [Text(value_text(row, value)) for value in row.values]
        interval = Text(f"{one.low:.3f} to {one.high:.3f}")
        table.add_row(
            Text(one.title), *values, Text(f"{one.ratio:.3f}"), interval, Text(one.verdict, _VERDICTS[one.verdict])
        )
    console.print(Text(f"{verdict.pairs} pairs, trained in turn; medians", "bold"))
    console.print()
    console.print(table)
    console.print()
    for sentence in in_sentences(verdict):
        _paragraph(console, Text(sentence))


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
