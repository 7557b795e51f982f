"""How commands print: tables for people, lines with tabs for pipes, JSON for programs."""

import errno
import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Generic, TextIO, TypeVar

import click
from rich import box
from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from sagelet_api.bidirectional import NAMED
from sagelet_api.durations import lasted
from sagelet_engine.base.errors import SageletError

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
#: Characters that a terminal obeys (C0 except tabs and line ends, DEL, C1), shown as U+2400 to U+2421, or as U+FFFD,
#: characters that reverse the direction of text, and what Python makes of bytes that are not UTF-8.
_OBEYED: dict[int, int | str] = {
    **NAMED,
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
}
_LINE_ENDS = {ord("\t"): 0x2409, ord("\n"): 0x240A}


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


def printable(text: str) -> str:
    """Returns the text without what a terminal obeys."""
    return text.translate(_OBEYED)


def one_line(name: str) -> str:
    """Returns a name that a job chose, as one line: no terminal obeys it, and it cannot pass for two names."""
    return printable(name).translate(_LINE_ENDS)


def say(text: str, *, err: bool = False) -> None:
    """Prints like click.echo, for text that contains what a job or a server said."""
    is_terminal = (sys.stderr if err else sys.stdout).isatty()
    click.echo(printable(text) if is_terminal else text, err=err)


class NoRoomForOutput(SageletError):
    """The output goes to a file, and its disk is full."""


@contextmanager
def until_reader_ends() -> Iterator[None]:
    """Ends its block without an error when nobody reads the output any more, as after `| head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        closed = [stream for stream in (sys.stdout, sys.stderr) if _has_no_reader(stream)]
        if not closed:
            raise
        for stream in closed:
            _drop(stream)
    except OSError as error:
        # An open stream's: an error of a file that is to be opened has its name.
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop(sys.stdout)
        raise NoRoomForOutput(f"The output cannot be written: {error.strerror}") from error


def _has_no_reader(stream: TextIO) -> bool:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # The stream has no file descriptor, as in a test.
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _drop(stream: TextIO) -> None:
    """Sends the stream's further output to nowhere, including what Python flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def console(*, stderr: bool = False) -> Console:
    """Returns a console that obeys NO_COLOR and knows whether there is a terminal. Without a terminal nothing is folded
    or coloured.

    FORCE_COLOR, which CI sets for its own page, would put escape sequences into output for programs.
    """
    made = SafeConsole(highlight=False, stderr=stderr, force_terminal=(sys.stderr if stderr else sys.stdout).isatty())
    if not made.is_terminal:
        made.width = WIDE
    return made


def echo_json(value: Any) -> None:
    text = json.dumps(value, indent=2, default=_jsonable, ensure_ascii=False)
    # A surrogate is a byte of a file's name that is not UTF-8. JSON has it as `\udce9`.
    say(text.encode("utf-8", "backslashreplace").decode("utf-8"))


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


def size(count: float) -> str:
    """Returns `1.2 GB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _jsonable(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _cell(column: Column[R], row: R) -> Text:
    value = column.text(row)
    return value if isinstance(value, Text) else Text(value or "")


def _width(columns: Sequence[Column[R]], rows: Sequence[R]) -> int:
    widest = (max([len(column.title), *(_cell(column, row).cell_len for row in rows)]) for column in columns)
    return sum(widest) + 2 * (len(columns) - 1)
