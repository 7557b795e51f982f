"""Shows the demo's jobs side by side: a table that changes on a terminal, otherwise a line now and then."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sagelet_api.cli.demo_figures import Mark

#: A log gets a line at each of these parts of a training.
_PARTS = 4
_BAR_WIDTH = 24


@dataclass(frozen=True)
class Row:
    """How far one job is."""

    #: What it does, `compiling, step 1, 3 s`, or how it ended. Shown until the first mark, and at the end.
    doing: str = "waits"
    marks: tuple[Mark, ...] = ()
    has_ended: bool = False

    @property
    def step(self) -> int:
        return self.marks[-1].step if self.marks else 0

    @property
    def seconds_left(self) -> float | None:
        """Returns seconds by the pace since the mark before. None before the second mark: the first step compiles."""
        if len(self.marks) < 2:
            return None
        before, last = self.marks[-2:]
        pace = (last.seconds - before.seconds) / max(1, last.step - before.step)
        return max(0.0, pace * (last.of - last.step))


class Board:
    """Shows a row for each kind of job, in the order in which they run."""

    def __init__(self, out: Console, kinds: Sequence[str]) -> None:
        self._out = out
        self._rows = {kind: Row() for kind in kinds}
        #: Kind, part of its training, and phase of each line of a log.
        self._said: set[tuple[str, int, str]] = set()
        is_live = out.is_terminal and not out.is_dumb_terminal
        self._live = Live(table(self._rows), console=out, auto_refresh=False) if is_live else None

    def shown(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._live is None else self._live

    def update(self, kind: str, row: Row) -> None:
        self._rows[kind] = row
        if self._live is not None:
            self._live.update(table(self._rows), refresh=True)
            return
        part = row.step * _PARTS // row.marks[-1].of if row.marks else -1
        # `compiling, step 1, 3 s`: a line for the phase, not for each second of it.
        status = row.doing if row.has_ended else row.doing.partition(",")[0]
        if (kind, part, status) not in self._said:
            self._said.add((kind, part, status))
            click.echo(f"{kind}: {line(row)}", err=self._out.stderr)


def table(rows: Mapping[str, Row]) -> Table:
    """Returns the table of a terminal."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title, justify in (("", "left"), ("STEPS", "left"), ("", "right"), ("LOSS", "right"), ("TIME", "left")):
        made.add_column(title, justify="right" if justify == "right" else "left", no_wrap=True)
    for kind, row in rows.items():
        last = row.marks[-1] if row.marks else None
        made.add_row(
            Text(kind, style="bold"),
            ProgressBar(last.of if last else 1, row.step, width=_BAR_WIDTH),
            f"{last.step}/{last.of}" if last else "",
            f"{last.loss:.4f}" if last else "",
            Text(_time(row)),
        )
    return made


def line(row: Row) -> str:
    """Returns a row as a line of a log."""
    if not row.marks:
        return row.doing
    last = row.marks[-1]
    return f"step {last.step} of {last.of}, loss {last.loss:.4f}, {_time(row)}"


def _time(row: Row) -> str:
    if row.has_ended:
        return f"{row.marks[-1].seconds:.1f} s; {row.doing}" if row.marks else row.doing
    if not row.marks:
        return row.doing
    left = row.seconds_left
    return f"{row.marks[-1].seconds:.1f} s" + ("" if left is None else f", {left:.0f} s left")
