"""The one definition of a step's time: seconds between two moments at which the device was done, divided by the steps.

A moment is known for each step, or only where the script has waited (`device_clock.py`). Time in which something was
compiled, evaluated or saved is left out.
"""

from __future__ import annotations

import collections
import threading
from dataclasses import dataclass, replace
from typing import Any

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.reporting.device_clock import NEVER, DeviceClock, Guarded, ScriptClock

#: The last intervals that are kept, and the step ends whose time is not known yet.
WINDOW = 2048
MOST_PENDING = 8192
#: The fewest steps of an interval from which the time of compiling may be taken away: its ends are uncertain by a step.
FEWEST_STEPS = 10
#: The parts of the intervals whose means show whether steps became slower or faster.
QUARTERS = 4
#: A device that took less than the script's time by this factor was catching up. No device does that for long.
CATCHING_UP = 1.1


@dataclass(frozen=True)
class StepEnd:
    """The end of a step, and what there was until then: numbers, and seconds of time.perf_counter."""

    mark: Any
    step: int
    compiles: int = 0
    compile_seconds: float = 0.0
    waited: float = 0.0
    exchanged: float = 0.0
    rows: int = 0
    #: Batches of evaluations and files saved, which belong to no step.
    interruptions: int = 0
    #: When the script was there, and for how long it had waited for the device until then.
    at: float = 0.0
    held: float = 0.0


@dataclass(frozen=True)
class Interval:
    steps: int
    seconds: float
    waited: float
    exchanged: float
    rows: int
    #: Of the script's own work.
    script: float = 0.0


class Intervals:
    """Keeps the last intervals. Another thread may ask for the document meanwhile."""

    def __init__(self, clock: DeviceClock) -> None:
        self.clock = clock
        self._guarded = Guarded(clock)
        self._guard = threading.Lock()
        self._pending: collections.deque[StepEnd] = collections.deque(maxlen=MOST_PENDING)
        self._last: tuple[StepEnd, float] | None = None
        #: Intervals in which nothing was compiled.
        self._steady: collections.deque[Interval] = collections.deque(maxlen=WINDOW)
        #: Long intervals without the time of compiling, for a script that hardly ever waits.
        self._rest: collections.deque[Interval] = collections.deque(maxlen=WINDOW)

    def mark(self) -> Any:
        """Returns the mark of this moment, for a StepEnd. Called by the thread that trains."""
        return self._guarded.mark()

    def step_ended(self, end: StepEnd) -> None:
        self._pending.append(end)
        if len(self._pending) >= MOST_PENDING // 2:
            self.update()

    def update(self) -> None:
        """Makes intervals of the step ends whose time is known by now."""
        with self._guard:
            while self._pending:
                at = self._guarded.done_at(self._pending[0].mark)
                if at is None:
                    return
                end = self._pending.popleft()
                if at != NEVER:
                    self._add(end, at)

    def finish(self) -> None:
        """Waits, for a bounded time, until the device is done with all steps. Called at the end of the process."""
        self._guarded.finish(self._all_known)

    def last_done(self) -> float:
        """Returns when the device was done with the last step whose time is known, or 0."""
        self.update()
        return self._last[1] if self._last else 0.0

    def kept(self) -> list[Interval]:
        """Returns the intervals that a steady step's figures are of, the oldest first."""
        return self._kept()[0]

    def _kept(self) -> tuple[list[Interval], str]:
        """Returns the intervals, and what clock they are of."""
        self.update()
        intervals = list(self._steady or self._rest)
        caught_up = _caught_up(intervals)
        return (caught_up, ScriptClock.source) if caught_up else (intervals, self.clock.source)

    def document(self) -> JsonObject:
        intervals, source = self._kept()
        steps, seconds = sum(one.steps for one in intervals), sum(one.seconds for one in intervals)
        single = sorted(one.seconds / one.steps for one in intervals)
        return {
            "steady_step_seconds": round(seconds / steps, 6) if steps else 0.0,
            "step_seconds": {
                "p5": round(_share(single, 5), 6),
                "p50": round(_share(single, 50), 6),
                "p95": round(_share(single, 95), 6),
                "count": len(intervals),
                "steps": steps,
                "clock": source,
                "quarters": [round(seconds, 6) for seconds in _quarters(intervals)],
            },
            "steady_input_wait_seconds": round(sum(one.waited for one in intervals) / steps, 6) if steps else 0.0,
            "samples_per_second": round(sum(one.rows for one in intervals) / seconds, 3) if seconds else 0.0,
        }

    def exchange_share(self) -> float:
        """Returns the collectives' share of the time of steady steps. 0 if there is no such step."""
        intervals = self.kept()
        seconds = sum(one.seconds for one in intervals)
        return min(1.0, sum(one.exchanged for one in intervals) / seconds) if seconds else 0.0

    def _all_known(self) -> bool:
        self.update()
        return not self._pending

    def _add(self, end: StepEnd, at: float) -> None:
        before, self._last = self._last, (end, at)
        if before is None:
            return
        last, last_at = before
        if end.interruptions != last.interruptions or at <= last_at:
            return
        compiled = end.compile_seconds - last.compile_seconds if end.compiles != last.compiles else 0.0
        interval = Interval(
            end.step - last.step,
            at - last_at - compiled,
            end.waited - last.waited,
            end.exchanged - last.exchanged,
            end.rows - last.rows,
            end.at - last.at - compiled - (end.held - last.held),
        )
        if end.compiles == last.compiles:
            self._steady.append(interval)
        elif interval.steps >= FEWEST_STEPS and interval.seconds > 0:
            self._rest.append(interval)


def _caught_up(intervals: list[Interval]) -> list[Interval]:
    """Returns the intervals by the script's time, if the device took less. Empty otherwise.

    After a program that took long, such as the first one, the device has a queue, and is done with the queue's steps
    sooner than the script dispatches others. The script's longest interval is left out: it may have waited there.
    """
    longest = max(intervals, key=lambda one: one.script / one.steps, default=None)
    others = [replace(one, seconds=one.script) for one in intervals if one is not longest and one.script > 0]
    script, steps = sum(one.seconds for one in others), sum(one.steps for one in others)
    device, all_steps = sum(one.seconds for one in intervals), sum(one.steps for one in intervals)
    return others if steps and script / steps > CATCHING_UP * device / all_steps else []


def _quarters(intervals: list[Interval]) -> list[float]:
    """Returns the seconds a step in each quarter of the intervals, in their order. Empty for fewer than four."""
    if len(intervals) < QUARTERS:
        return []
    ends = [round(len(intervals) * quarter / QUARTERS) for quarter in range(QUARTERS + 1)]
    parts = [intervals[begin:end] for begin, end in zip(ends, ends[1:])]
    return [sum(one.seconds for one in part) / sum(one.steps for one in part) for part in parts]


def _share(ordered: list[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else 0.0
