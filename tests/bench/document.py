"""docs/benchmarks.md: people write what stands between the marks' pairs, this writes what stands within."""

from collections.abc import Mapping

from bench import page, wording
from bench.figures import FIGURES, Measured
from bench.tables import Bar, Table

PAGE = FIGURES.parents[1] / "benchmarks.md"
BAR_HEAD = ("bar", "promised", "measured", "")


def write(figures: Mapping[str, Measured]) -> None:
    for name, measured in figures.items():
        page.write(PAGE, section(name, measured), name)
    page.write(PAGE, overview(figures), "bars")


def overview(figures: Mapping[str, Measured]) -> str:
    """Every bar of every section."""
    rows = [(name, *_bar(bar)) for name, measured in figures.items() for bar in measured.bars]
    return page.table(("section", *BAR_HEAD), rows)


def section(name: str, measured: Measured) -> str:
    head = f"`{wording.command(name)}`, {wording.circumstances(measured)}.\n{measured.machine}."
    return "\n\n".join([head, *map(_table, measured.tables)])


def _table(table: Table) -> str:
    rows = [tuple(wording.number(cell) for cell in row) for row in table.rows]
    parts = [f"**{table.title}**", *filter(None, [table.conditions]), page.table(table.columns, rows)]
    return "\n\n".join(parts)


def _bar(bar: Bar) -> tuple[str, ...]:
    told = wording.verdict(bar)
    return bar.what, wording.promise(bar), wording.number(bar.measured), told if bar.met else f"**{told}**"
