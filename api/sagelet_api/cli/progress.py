"""Shows a build: its steps with their seconds and bytes, and what runs now below them on a terminal."""

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sagelet_api.cli.output import console as own_console
from sagelet_api.cli.text import size
from sagelet_engine.images.output import BuildEvent, EventKind

#: Characters of a step's text beside the bar.
WIDTH = 60


class BuildProgress:
    """Draws build events. If the output is not a terminal, each note, step and end is one line."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or own_console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._line: TaskID | None = None

    def __enter__(self) -> "BuildProgress":
        self._progress.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._progress.stop()

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
