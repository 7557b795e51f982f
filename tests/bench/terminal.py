"""Tables as a terminal shows them."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from bench import wording
from bench.figures import Measured
from bench.tables import Table


def show(console: Console, section: str, measured: Measured) -> None:
    console.rule(f"[bold]{section}")
    for table in measured.tables:
        _show(console, table)
    console.print(f"{measured.machine}\n{wording.circumstances(measured)}\n", style="dim", highlight=False)


def _show(console: Console, table: Table) -> None:
    grid = Grid(title=escape(table.title), title_justify="left", title_style="bold")
    for place, column in enumerate(table.columns):
        grid.add_column(escape(column), justify="right" if place else "left", overflow="fold")
    for row in table.rows:
        grid.add_row(*(escape(wording.number(cell)) for cell in row))
    console.print(grid)
    console.print(table.conditions, style="dim", markup=False, highlight=False)
    for bar in table.bars:
        style = "green" if bar.met else "bold red"
        figures = f"{wording.number(bar.measured)} ({wording.promise(bar)})"
        console.print(f"[{style}]{wording.verdict(bar):6}[/] {escape(bar.what)}: {figures}", highlight=False)
    if table.counts:
        counts = ", ".join(f"{name} {count:,}" for name, count in table.counts.items())
        console.print(f"counts: {counts}", style="dim", markup=False, highlight=False)
    console.print()
