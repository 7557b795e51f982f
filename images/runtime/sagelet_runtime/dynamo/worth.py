"""Whether it pays to trace a model once in place of at each step.

As one who rents skis buys them when the rent has come to their price: the job then never takes much more than twice
what the better choice would have taken, however long it trains. A known end makes it a plain comparison.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

#: Steps before anything is judged, and the last ones that are looked at.
LEAST, WINDOW = 8, 64
#: The part of a step that the device may work. Above it the device, not the host, makes the step as long as it is.
MOST_BUSY = 0.6
#: The part of the host's time that goes with tracing: 0.59 and 0.56 by `make bench-step` (docs/explanation).
SAVED = 0.5
#: What it costs: importing Dynamo, tracing, and compiling. Seconds, traced steps, times what was compiled so far.
IMPORT_SECONDS, TRACED_STEPS, COMPILED = 3.0, 40.0, 2.0


class Clocks(NamedTuple):
    """Seconds of this process so far."""

    now: float
    compiling: float
    #: In which the device worked.
    device: float
    #: In which the script waited for its batches.
    waiting: float


@dataclass(frozen=True)
class Judgement:
    #: Medians of a step's seconds: by the clock, and what of it neither the device nor a wait for a batch took.
    step: float
    host: float
    #: Seconds that tracing once costs, and how many steps it would be for.
    cost: float
    steps: int

    @property
    def is_bound_by_host(self) -> bool:
        return self.host >= (1 - MOST_BUSY) * self.step

    @property
    def pays(self) -> bool:
        return self.is_bound_by_host and self.steps * SAVED * self.host >= self.cost


class Worth:
    """Looks at the steps that are traced. Medians: a step may have an evaluation or a checkpoint in it."""

    def __init__(self) -> None:
        self.count = 0
        self._steps: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        self._last: Clocks | None = None

    def step(self, clocks: Clocks) -> None:
        """Notes the start of a step. The one before is left out if it compiled."""
        before, self._last = self._last, clocks
        if before is None or clocks.compiling != before.compiling:
            return
        self.count += 1
        seconds = clocks.now - before.now
        others = clocks.device - before.device + clocks.waiting - before.waiting
        self._steps.append((seconds, max(0.0, seconds - others)))

    def judge(self, left: int | None = None) -> Judgement | None:
        """Returns what is known, or None if too few steps are. `left`: the steps that are left, where known."""
        if self._last is None or len(self._steps) < LEAST:
            return None
        seconds, host = (sorted(column)[len(column) // 2] for column in zip(*self._steps))
        cost = IMPORT_SECONDS + TRACED_STEPS * host + COMPILED * self._last.compiling
        return Judgement(seconds, host, cost, self.count if left is None else left)
