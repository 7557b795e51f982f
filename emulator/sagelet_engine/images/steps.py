"""The steps of a build as people see them: few, with names, seconds and bytes. A step takes many instructions."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sagelet_engine.images.output import BuildEvent, EventKind, Report

#: The step before the instructions of the Dockerfile.
BASE = "base image"
_HEADING = "## "


def headings(dockerfile: str) -> dict[int, str]:
    """Returns the names of a Dockerfile's steps by the number of the instruction, from 1, with which each begins.

    Instructions before the first heading belong to the first step.
    """
    names: dict[int, str] = {}
    instructions, continued = 0, False
    for line in dockerfile.splitlines():
        text = line.strip()
        if text.startswith(_HEADING) and not continued:
            names[instructions + 1 if names else 1] = text.removeprefix(_HEADING)
        elif text and not text.startswith("#"):
            instructions += not continued
            continued = text.endswith("\\")
    return names


class Steps:
    """Turns the events of a build into those of its steps: STEP when one begins, END when it is done."""

    def __init__(
        self,
        names: Mapping[int, str],
        report: Report,
        size_of: Callable[[str], int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`names`: by the first instruction. `size_of`: returns the bytes of an image with the layers below it."""
        self._names = dict(names)
        self._titles: Sequence[str] = (BASE, *self._names.values())
        self._report = report
        self._size_of = size_of
        self._clock = clock
        self._number = 0
        self._began = 0.0
        self._ran = False
        #: The image that the newest instruction made, and the bytes of the one before this step.
        self._image: str | None = None
        self._before: int | None = 0

    def begin(self) -> None:
        """Begins the next step."""
        self._number += 1
        self._began, self._ran = self._clock(), False
        self._say(BuildEvent(EventKind.STEP, self._titles[self._number - 1]))

    def end(self, *, ran: bool, image: str | None) -> None:
        """Ends the step. `ran`: False if all of it was there before. `image`: what it made."""
        now = None if image is None else self._size_of(image)
        added = None if now is None or self._before is None else max(0, now - self._before)
        self._before = now
        seconds = self._clock() - self._began if ran else None
        self._say(BuildEvent(EventKind.END, self._titles[self._number - 1], seconds=seconds, size=added))

    def report(self, event: BuildEvent) -> None:
        """Takes an event of the builder, whose steps are instructions."""
        if event.kind is EventKind.STEP:
            if event.step in self._names:
                if event.step != min(self._names):
                    self.end(ran=self._ran, image=self._image)
                self.begin()
            self._say(BuildEvent(EventKind.OUTPUT, event.text))
        elif event.kind is EventKind.IMAGE:
            self._image = event.text
        elif event.kind is EventKind.RUNS:
            self._ran = True
        else:
            self._say(event)

    def finish(self, image: str) -> None:
        """Ends the last step. Nothing if the builder never began one."""
        if self._number > 1:
            self.end(ran=self._ran, image=image)

    def _say(self, event: BuildEvent) -> None:
        self._report(replace(event, step=self._number, steps=len(self._titles)))
