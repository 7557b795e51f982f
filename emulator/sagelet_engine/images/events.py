"""What a build reports while it goes on: enough for a progress display, nothing about how it is drawn."""

import enum
from collections.abc import Callable
from dataclasses import dataclass


class EventKind(enum.Enum):
    #: A decision for the user to read: which base, which certificates, nothing to do.
    NOTE = "note"
    #: A step begins; `step` of `steps` are set.
    STEP = "step"
    #: Bytes of one file are on their way; `done` and `total` are set.
    PROGRESS = "progress"
    #: One line of output of the current step.
    OUTPUT = "output"


@dataclass(frozen=True)
class BuildEvent:
    kind: EventKind
    text: str
    #: 1-based number of the current step, and how many there are; None outside of the steps.
    step: int | None = None
    steps: int | None = None
    #: Bytes; only in PROGRESS.
    done: int | None = None
    total: int | None = None


Report = Callable[[BuildEvent], None]


def note(text: str) -> BuildEvent:
    return BuildEvent(EventKind.NOTE, text)
