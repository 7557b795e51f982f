"""Shows long work: a build's steps with their seconds and bytes, and an upload's bytes."""

from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from sagelet_api.cli.output import console as own_console
from sagelet_api.cli.text import size
from sagelet_engine.images.output import BuildEvent, EventKind

D = TypeVar("D", bound="_Drawn")
#: Characters of a step's text beside the bar.
WIDTH = 60
#: Bytes of an upload that is said first where no terminal shows it.
SAID_FIRST = 100_000_000


def draws(console: Console) -> bool:
    """Returns whether a line can be drawn anew. A dumb terminal cannot."""
    return console.is_terminal and not console.is_dumb_terminal


class _Drawn:
    """A context manager that draws columns while its block runs, and nothing of them afterwards."""

    def __init__(self, console: Console | None, *columns: ProgressColumn) -> None:
        self._console = console or own_console(stderr=True)
        self._progress = Progress(*columns, console=self._console, transient=True, disable=not draws(self._console))

    def __enter__(self: D) -> D:
        self._progress.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class BuildProgress(_Drawn):
    """Draws build events. If the output is not a terminal, each note, step and end is one line."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console, TextColumn("{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn())
        self._line: TaskID | None = None

    def report(self, event: BuildEvent) -> None:
        if event.kind is EventKind.NOTE:
            self._print(event.text)
        elif event.kind is EventKind.STEP:
            self._print(f"[{event.step}/{event.steps}] {event.text}")
            self._draw("")
        elif event.kind is EventKind.END:
            self._print(f"      {_took(event)}")
        elif event.kind in (EventKind.OUTPUT, EventKind.PROGRESS):
            self._draw(event.text.splitlines()[0], event.done, event.total)

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def _draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Shows what runs now. A new step has a new clock."""
        if not text and self._line is not None:
            self._progress.remove_task(self._line)
            self._line = None
        if self._line is None:
            self._line = self._progress.add_task("", total=None)
        self._progress.update(self._line, description=f"  {escape(text[:WIDTH])}", completed=done, total=total)


def _took(event: BuildEvent) -> str:
    """`12.3 s, 1.2 GB`; `there already, 1.2 GB`."""
    took = "there already" if event.seconds is None else f"{event.seconds:.1f} s"
    return took if event.size is None else f"{took}, {size(event.size)}"


class UploadProgress(_Drawn):
    """Draws a bar of an upload's bytes on a terminal. Otherwise says a large upload first, in one line."""

    def __init__(self, files: int, total: int, console: Console | None = None) -> None:
        """`total`: bytes of all files."""
        bar = (TextColumn("{task.description}"), BarColumn(bar_width=20))
        super().__init__(console, *bar, DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        text = f"uploading {files} file{'' if files == 1 else 's'}, {size(total)}"
        self._task = self._progress.add_task(text, total=total)
        if not draws(self._console) and total >= SAID_FIRST:
            self._console.print(text, highlight=False, markup=False)

    def seen(self, count: int) -> None:
        """Takes the count of bytes that went out since the last call, of any thread."""
        self._progress.advance(self._task, count)
