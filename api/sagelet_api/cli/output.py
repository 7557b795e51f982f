"""How commands print tables: columns for people, lines with tabs for pipes."""

import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Generic, TypeVar

from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sagelet_api.cli.text import printable, say
from sagelet_api.durations import lasted

R = TypeVar("R")
#: The width without a terminal.
WIDE = 10_000
STATUS_COLOURS = {
    "InProgress": "cyan",
    "Completed": "green",
    "Failed": "red",
    "Stopping": "yellow",
    "Stopped": "yellow",
}


@dataclass(frozen=True)
class Column(Generic[R]):
    title: str
    #: For people. None stands for nothing.
    text: Callable[[R], "str | Text | None"]
    #: For programs, if that differs.
    plain: Callable[[R], str | None] | None = None
    #: Columns with a number above 0 are left out on a narrow terminal, the highest number first.
    optional: int = 0
    right: bool = False


class SafeConsole(Console):
    """A console whose colours and cursor moves come from rich only, never from a job's text.

    A job's escape sequence could set the clipboard, rename the window, or overwrite lines above. Without a terminal a
    table is lines with tabs, because padding is in the way of programs.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        if self.is_terminal or not (len(objects) == 1 and isinstance(objects[0], Table)):
            super().print(*objects, **options)
            return
        for cells in _plain_rows(objects[0]):
            # rich would turn the tabs into blanks.
            self.file.write("\t".join(cells) + "\n")
        self.file.flush()

    def on_broken_pipe(self) -> None:
        """Ignores a broken pipe. rich would end the program with 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        if not self.is_terminal:
            return super()._render_buffer(buffer)
        return super()._render_buffer(one if one.control else Segment(printable(one.text), one.style) for one in buffer)


def console(*, stderr: bool = False) -> Console:
    """Returns a console that obeys NO_COLOR and knows whether there is a terminal. Without a terminal nothing is folded
    or coloured.

    FORCE_COLOR, which CI sets for its own page, would put escape sequences into output for programs.
    """
    made = SafeConsole(highlight=False, stderr=stderr, force_terminal=(sys.stderr if stderr else sys.stdout).isatty())
    if not made.is_terminal:
        made.width = WIDE
    return made


def show_rows(columns: Sequence[Column[R]], rows: Sequence[R]) -> None:
    """Prints a table on a terminal. Otherwise prints all columns of each row, with tabs between them and no heading."""
    out = console()
    if out.is_terminal:
        out.print(table(columns, rows, out.width))
        return
    for row in rows:
        say(plain_row(columns, row))


def plain_row(columns: Sequence[Column[R]], row: R) -> str:
    return "\t".join(_plain_cell(str((column.plain or column.text)(row) or "")) for column in columns)


def _plain_rows(made: Table) -> Iterator[list[str]]:
    """Yields the cells of each line, including the headings if there are any."""
    headings = [_plain_cell(str(column.header)) for column in made.columns]
    if made.show_header and any(headings):
        yield headings
    for row in zip(*(column.cells for column in made.columns), strict=True):
        cells = (Text.from_markup(cell) if isinstance(cell, str) else cell for cell in row)
        yield [_plain_cell(str(cell)) for cell in cells]


def _plain_cell(text: str) -> str:
    return printable(text).replace("\t", " ").replace("\n", " ")


def table(columns: Sequence[Column[R]], rows: Sequence[R], width: int) -> Table:
    """Returns a table with as many columns as fit the width."""
    kept = list(columns)
    while _width(kept, rows) > width and (least := max(kept, key=lambda column: column.optional)).optional:
        kept.remove(least)
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in kept:
        # Names must stay whole, so that they can be copied.
        made.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(_cell(column, row) for column in kept))
    return made


def facts(pairs: Sequence[tuple[str, "str | Text"]]) -> Table:
    """Returns a table of names and values, one pair a line."""
    made = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True, style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(Text(name), Text(value) if isinstance(value, str) else value)
    return made


def boxed(*titles: str) -> Table:
    return Table(*titles, box=box.SIMPLE_HEAD, pad_edge=False)


def status_text(status: str, shown: str = "") -> Text:
    """Returns a status in its colour. `shown` is written instead of it."""
    return Text(shown or status, STATUS_COLOURS.get(status, ""))


def age(moment: datetime) -> str:
    """Returns `4 min ago`; one unit is enough."""
    words = lasted(int(max(0.0, (datetime.now(timezone.utc) - moment).total_seconds()))).split()
    return f"{words[0]} {words[1]} ago"


def _cell(column: Column[R], row: R) -> Text:
    value = column.text(row)
    return value if isinstance(value, Text) else Text(value or "")


def _width(columns: Sequence[Column[R]], rows: Sequence[R]) -> int:
    widest = (max([len(column.title), *(_cell(column, row).cell_len for row in rows)]) for column in columns)
    return sum(widest) + 2 * (len(columns) - 1)
