"""Splits the time of steps into waiting, compiling and executing, in a bounded number of spans of steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

#: The most spans that are kept. When there are more, each pair of neighbours becomes one.
MOST = 128
#: Seconds of the shortest span that compiled nothing. Reading torch_xla's metrics takes a part of a millisecond.
LEAST = 0.1

#: Seconds of compiling and of executing so far.
Busy = Callable[[], "tuple[float, float]"]


@dataclass
class Span:
    """Some steps, one after the other. `began` is a time of time.perf_counter; all else are seconds."""

    step: int
    began: float
    steps: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    compiling: float = 0.0
    executing: float = 0.0
    #: Of waiting for the device.
    held: float = 0.0


class Timeline:
    def __init__(
        self,
        busy: Busy = lambda: (0.0, 0.0),
        held: Callable[[], float] = lambda: 0.0,
        others: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`held` returns the seconds so far in which the script waited for the device, as far as each step may ask.

        `others` returns those that are asked for once a span.
        """
        self._busy = busy
        self._held, self._others = held, others
        self._least = LEAST
        self._spans: list[Span] = []
        self._open: Span | None = None
        self._busy_at = (0.0, 0.0, 0.0)
        #: Seconds of waiting for the device at the end of the last step: what waits after it is part of no span yet.
        self._held_at_end = 0.0

    def begins(self) -> None:
        """The first step begins now, as far as is known: what was compiled and waited for before is part of no span."""
        self._held_at_end = self._held()
        self._busy_at = self._spent()

    def step_ended(self, step: int, began: float, ended: float, waited: float, *, compiled: bool) -> None:
        """Adds a step. `waited`: seconds of it that the script waited for its batch."""
        span = self._open
        if span is None:
            span = self._open = Span(step, began)
        span.steps += 1
        span.seconds = ended - span.began
        span.waited += waited
        self._held_at_end = self._held()
        if compiled or span.seconds >= self._least:
            self._close(span)

    def document(self, started_ms: int) -> list[dict[str, float]]:
        """Returns the spans, by time. `started_ms`: what `start_seconds` count from, in ms since the epoch."""
        zero = time.perf_counter() - (time.time() - started_ms / 1000)
        spans, rest = list(self._spans), self._open
        if rest is not None:
            spans.append(self._since_last(rest, self._spent()))
        return [
            {
                "step": span.step,
                "steps": span.steps,
                "start_seconds": round(max(0.0, span.began - zero), 4),
                "seconds": round(span.seconds, 4),
                "wait_seconds": round(span.waited, 4),
                "compile_seconds": round(span.compiling, 4),
                "execute_seconds": round(span.executing, 4),
                "device_wait_seconds": round(span.held, 4),
            }
            for span in spans
        ]

    def _close(self, span: Span) -> None:
        busy = self._spent()
        self._spans.append(self._since_last(span, busy))
        self._busy_at = busy
        self._open = None
        if len(self._spans) > MOST:
            self._spans = [_joined(self._spans[at : at + 2]) for at in range(0, len(self._spans), 2)]
            self._least *= 2

    def _spent(self) -> tuple[float, float, float]:
        return (*self._busy(), self._held_at_end + self._others())

    def _since_last(self, span: Span, busy: tuple[float, float, float]) -> Span:
        """Returns a copy with what was compiled, executed and waited for since the last span ended.

        A thread of a data loader may compile while the script waits for its batch. That time is the script's waiting.
        """
        compiling, executing, held = (max(0.0, now - then) for now, then in zip(busy, self._busy_at))
        held = min(held, max(0.0, span.seconds - span.waited))
        compiling = min(compiling, max(0.0, span.seconds - span.waited - held))
        return Span(span.step, span.began, span.steps, span.seconds, span.waited, compiling, executing, held)


def _joined(spans: list[Span]) -> Span:
    first, last = spans[0], spans[-1]
    return Span(
        first.step,
        first.began,
        sum(span.steps for span in spans),
        last.began + last.seconds - first.began,
        sum(span.waited for span in spans),
        sum(span.compiling for span in spans),
        sum(span.executing for span in spans),
        sum(span.held for span in spans),
    )
