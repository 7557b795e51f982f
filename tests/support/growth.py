"""What an answer costs as its input grows: lines of Python, bytes held at once, bytes of the answer. Never seconds.

A reader is walked with two sizes of its input. What the larger costs may be as many times as much as it is larger, and
half as much again. What grows with the square shows itself: with 8 times the input it costs 64 times as much.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from support.work import lines_of, peak_of

#: Units of the smaller input, and how many times as many the larger has.
SMALL, TIMES = 60, 8
#: Growth beyond the input's own, for what the smaller input does not reach.
SLACK = 1.5
#: Lines that any call may take, and bytes that it may hold and answer, whatever it is sent: a page, an error, a cache.
FREE_LINES, FREE_HELD, FREE_ANSWER = 2_000, 8 * 1024**2, 256 * 1024
#: Bytes that are held for each byte of the input: JSON of `[{},{},...]` takes some 40 as Python's objects, and a
#: second time as what was checked.
HELD_FOR_EACH = 150
#: Seconds within which one call must hold no more than that.
PATIENCE_S = 20
#: Bytes of the answer for each byte by which the input grows, and those that it may grow by whatever it is sent.
ANSWER_FOR_EACH, ANSWER_GROWTH = 2, 16 * 1024


@dataclass(frozen=True)
class Grown:
    """One way in which an input grows."""

    name: str
    #: Returns an input of so many units.
    make: Callable[[int], Any]


@dataclass(frozen=True)
class Cost:
    sent: int
    lines: int
    answer: int


def cost(made: Any, call: Callable[[Any], Any], size: Callable[[Any], int]) -> Cost:
    """Returns what a call with an input costs."""
    answers: list[Any] = []
    lines = lines_of(lambda: answers.append(call(made)))
    return Cost(size(made), lines, size(answers[0]))


def faults(
    grown: Grown,
    call: Callable[[Any], Any],
    size: Callable[[Any], int],
    *,
    times: int = TIMES,
    free_held: int = FREE_HELD,
    patience: float = PATIENCE_S,
) -> Iterator[str]:
    """Yields what grows faster than the input, or is larger than any input justifies. Makes at least four calls."""
    least, most = grown.make(1), grown.make(SMALL * times)
    # The first call loads what the others find.
    call(least)
    small, large = (cost(made, call, size) for made in (grown.make(SMALL), most))
    # What is around the part that grows does not count.
    around = size(least)
    growth = max(1.0, (large.sent - around) / max(1, small.sent - around))
    if large.lines > FREE_LINES + SLACK * growth * small.lines:
        yield f"{grown.name}: {small.lines} lines for {small.sent} bytes, {large.lines} for {large.sent}"
    allowed = free_held + HELD_FOR_EACH * large.sent
    # Threads of other servers of this process allocate, too, for as long as they work.
    ended = time.monotonic() + patience
    collected = False
    while (held := peak_of(lambda: call(most), collected=collected)) > allowed and time.monotonic() < ended:
        collected = True
    if held > allowed:
        yield f"{grown.name}: holds more than {allowed} bytes for {large.sent}: {held}"
    if large.answer > FREE_ANSWER + 2 * large.sent:
        yield f"{grown.name}: answers {large.answer} bytes to {large.sent}"
    if large.answer - small.answer > ANSWER_GROWTH + ANSWER_FOR_EACH * (large.sent - small.sent):
        yield f"{grown.name}: answers {small.answer} bytes to {small.sent}, {large.answer} to {large.sent}"


def length(value: Any) -> int:
    """Returns the bytes or letters of a value, those of its parts together. Anything else counts as one."""
    total, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (str, bytes)):
            total += len(part)
        elif isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting += part
        else:
            total += len(getattr(part, "__dict__", ())) + 1
            waiting += getattr(part, "__dict__", {}).values()
    return total
