"""Shows a build: a progress line on a terminal, plain lines in a log."""

from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sagelet_engine.images.output import BuildEvent, EventKind

#: Characters of a step's text beside the bar.
WIDTH = 60


class BuildProgress:
    """Draws build events. If the output is not a terminal, each step and note is one line."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._step: TaskID | None = None
        self._output: TaskID | None = None

    def __enter__(self) -> "BuildProgress":
        self._progress.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def report(self, event: BuildEvent) -> None:
        if event.kind is EventKind.NOTE:
            self._console.print(escape(event.text), highlight=False)
        elif event.kind is EventKind.STEP:
            self._begin_step(event)
        elif self._output is not None:
            self._progress.update(
                self._output, description=f"  {escape(event.text[:WIDTH])}", completed=event.done, total=event.total
            )

    def _begin_step(self, event: BuildEvent) -> None:
        text = escape(event.text.splitlines()[0][: 2 * WIDTH])
        self._console.print(f"[{event.step}/{event.steps}] {text}", highlight=False, markup=False)
        for task in (self._step, self._output):
            if task is not None:
                self._progress.remove_task(task)
        self._step = self._progress.add_task(f"step {event.step} of {event.steps}", total=event.steps or 1)
        self._progress.update(self._step, completed=(event.step or 1) - 1)
        self._output = self._progress.add_task("", total=None)
