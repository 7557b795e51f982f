"""The clock of a worker's steps."""

import collections
import time
from collections.abc import Callable
from typing import Optional

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.reporting.device_clock import DeviceClock, ScriptClock
from sagelet_runtime.reporting.intervals import Intervals, StepEnd
from sagelet_runtime.reporting.timeline import Timeline

#: The number of last steps from which the median time of dispatch is taken.
WINDOW = 2048
#: Numbers of compiling steps kept, at most.
MOST_COMPILING = 256


class Steps:
    """Times steps from one end to the next. A step ends with the first graph that ends after an optimizer step.

    In a script that ends no graph, it ends with the optimizer step. The calls in each step only add numbers. What the
    script's own clock sees of a step is the time of its dispatch; `intervals` has the time of the device.
    """

    def __init__(
        self,
        exchanged: Callable[[], float] = lambda: 0.0,
        timeline: Optional[Timeline] = None,
        clock: Optional[DeviceClock] = None,
        compile_seconds: Callable[[], float] = lambda: 0.0,
        held: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`exchanged` returns the seconds in collectives so far, `compile_seconds` those of compiling, and `held` those
        in which the script waited for the device.
        """
        self._exchanged, self._compile_seconds, self._held = exchanged, compile_seconds, held
        self.timeline = timeline or Timeline()
        self.intervals = Intervals(clock or ScriptClock())
        #: Batches of evaluations and files that were saved so far.
        self.interruptions = 0
        self.steps = 0
        self.optimizer_steps = 0
        #: Graphs that the script ended.
        self.markers = 0
        #: Graphs that ran in between because a value was read, and the number that had run when one was last ended.
        self.breaks = 0
        self.graphs = 0
        #: Steps without an evaluation or a saved file before their end, the breaks in them, and what was when the last
        #: step ended.
        self._plain_steps = self._plain_breaks = self._breaks_at = self._interruptions_at = 0
        #: Seconds that the script waited for batches so far, and rows that it trained on.
        self.waited = 0.0
        self.samples = 0
        self.compiling_steps: list[int] = []
        self.compiling_step_count = 0
        self.first_seconds = 0.0
        #: When the first step ended, ms since the epoch.
        self.first_ended_ms = 0
        self.last_ended = 0.0
        #: The last optimizer step, by time.perf_counter. A script that ends no graph has only that.
        self.optimizer_stepped = 0.0
        self._began: float | None = None
        self._counted_at = 0
        self._compiles = 0
        self._waited_at = 0.0
        #: Seconds from one end to the next, by the script's clock, of each step that compiled nothing.
        self._dispatches: collections.deque[float] = collections.deque(maxlen=WINDOW)

    def broken(self, graphs: int) -> None:
        """Counts the graphs that ran since a graph was last ended. Called when the script or sagelet ends another.

        `graphs`: the number that have run so far. It is smaller than before if the counters were cleared.
        """
        self.breaks += max(0, graphs - self.graphs)
        self.graphs = graphs

    def breaks_per_step(self, breaks: int) -> float:
        """Returns the graph breaks of a step, without those of evaluations. `breaks`: all so far.

        A script that ends no graph has its optimizer steps only.
        """
        if self._plain_steps:
            return self._plain_breaks / self._plain_steps
        steps = self.steps or self.optimizer_steps
        return breaks / steps if steps else 0.0

    def about_to_begin(self) -> None:
        """Sets the start of the first step to now. Called when the device is opened, a batch comes or a graph ends."""
        if self.steps == 0 and self.optimizer_steps == 0:
            self._begin()

    def begins_at_latest(self) -> None:
        """Sets the start of the first step to now if nothing has set it. Called when a model is."""
        if self._began is None:
            self._begin()

    def _begin(self) -> None:
        self._began = time.perf_counter()
        self._waited_at = self.waited
        self.timeline.begins()

    def graph_ended(self, compiles: int) -> None:
        """Notes the end of a graph. `compiles`: the number of programs compiled so far.

        A step that compiled a program is left out of the times of the others.
        """
        self.markers += 1
        if self.optimizer_steps != self._counted_at:
            self.step_ended(compiles)
        elif self.steps == 0:
            self.about_to_begin()

    def step_ended(self, compiles: int = 0) -> None:
        now = time.perf_counter()
        compiled = compiles != self._compiles
        began = self.last_ended if self.steps else now if self._began is None else self._began
        self.timeline.step_ended(self.steps, began, now, self.waited - self._waited_at, compiled=compiled)
        if self.steps == 0:
            self.first_seconds = now - began
            self.first_ended_ms = time.time_ns() // 1_000_000
        elif not compiled:
            self._dispatches.append(now - self.last_ended)
        if compiled:
            self.compiling_step_count += 1
            if len(self.compiling_steps) < MOST_COMPILING:
                self.compiling_steps.append(self.steps)
        if self.interruptions == self._interruptions_at:
            self._plain_steps += 1
            self._plain_breaks += self.breaks - self._breaks_at
        self._breaks_at, self._interruptions_at = self.breaks, self.interruptions
        self.steps += 1
        self.last_ended = now
        self._counted_at, self._compiles = self.optimizer_steps, compiles
        self._waited_at = self.waited
        self.intervals.step_ended(
            StepEnd(
                self.intervals.mark(),
                self.steps,
                compiles,
                self._compile_seconds(),
                self.waited,
                self._exchanged(),
                self.samples,
                self.interruptions,
                now,
                self._held(),
            )
        )

    def _last_step_ms(self) -> int:
        """Returns when the device was done with the last step, as far as it is known: ms since the epoch, or 0."""
        last = max(self.last_ended, self.optimizer_stepped, self.intervals.last_done())
        return time.time_ns() // 1_000_000 - round((time.perf_counter() - last) * 1000) if last else 0

    def document(self) -> JsonObject:
        dispatches = sorted(self._dispatches.copy())
        return {
            "steps": self.steps,
            "optimizer_steps": self.optimizer_steps,
            "markers": self.markers,
            "compiling_steps": list(self.compiling_steps),
            "compiling_step_count": self.compiling_step_count,
            "first_step_seconds": round(self.first_seconds, 6),
            "dispatch_seconds": round(dispatches[len(dispatches) // 2], 6) if dispatches else 0.0,
            "input_wait_seconds": round(self.waited, 6),
            "last_step_ms": self._last_step_ms(),
            "samples": self.samples,
            **self.intervals.document(),
        }
