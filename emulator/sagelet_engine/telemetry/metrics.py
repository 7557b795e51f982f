"""Applies metric definitions: takes numbers from log lines.

As on AWS: Python's regular expressions, group 1 only, values as float32. So a regex that cuts `2.38e-05` down to `2.38`
gives 2.38 here, too. The library `regex` runs them: it understands the same language, lets other threads work
meanwhile, and has a time limit. With `re`, one definition that backtracks for ever would stop the server.
"""

import math
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import regex

from sagelet_engine.base.number_text import number_in
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.spec import MetricDefinition
from sagelet_engine.telemetry.patterns import expanded, needed_text, quick_length

#: Seconds that one definition may take for one line. An ordinary one takes microseconds. Once so many definitions of a
#: job have taken longer, the others have less.
TIMEOUT_S, SLOW, LATER_S = 1.0, 2, 0.25
#: CPU seconds that the definitions of a host may take together, and what each line and each character of it adds to
#: them. 40 ordinary definitions take less.
ALLOWED_S, LINE_S, CHARACTER_S = 2.0, 0.003, 2e-6
#: Characters of a metric's name that a line shows.
_SHOWN = 100
#: Elements of a regex whose counted groups are copied. Each takes about 300 bytes once it is compiled.
MOST_ELEMENTS = 2_000


class InvalidRegex(ValueError):
    """A regex does not compile, or would take too much memory."""


def compile_regex(text: str) -> "regex.Pattern[str]":
    """Compiles a regex of a client. Raises InvalidRegex, also for one that has more than MOST_ELEMENTS."""
    if (elements := expanded(text)) > MOST_ELEMENTS:
        raise InvalidRegex(
            f"its counted repetitions make up to {elements:,} elements of it, and it may have {MOST_ELEMENTS:,}; use "
            "* or + for a large count"
        )
    try:
        # The library would remember hundreds of patterns, also those of jobs that were refused.
        return regex.compile(text, cache_pattern=False)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InvalidRegex(str(error)) from error


class _Definition(NamedTuple):
    regex: "regex.Pattern[str]"
    #: A text that every line with a match contains.
    needed: str
    #: Length of a line, in characters, up to which the regex ends within QUICK_STEPS, whatever they are.
    quick: int


def _definition(text: str) -> _Definition:
    return _Definition(compile_regex(text), needed_text(text), quick_length(text))


class MetricDefinitions:
    """The compiled MetricDefinitions of a job. Raises InvalidRegex."""

    def __init__(self, definitions: Iterable[MetricDefinition]) -> None:
        self._definitions = {one.name: _definition(one.regex) for one in definitions}
        self._notes: list[str] = []
        self._timeout_s = TIMEOUT_S
        self._slow = 0
        #: CPU seconds that are left, and that each definition has taken since something is missing.
        self._left_s = ALLOWED_S
        self._taken_s: defaultdict[str, float] = defaultdict(float)
        #: True while something is missing. To look at the time of each definition takes as long as most of them.
        self._is_watched = False
        #: Metrics and values that a line has named.
        self._odd: set[tuple[str, str]] = set()

    def take_notes(self) -> list[str]:
        """Returns lines for the job's log about values that were left out since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def points(self, events: Iterable[LogEvent]) -> list[MetricPoint]:
        """Returns every value in the events, in order, also NaN and infinity. A definition that takes too long is never
        used again.
        """
        return [point for event in events for point in self._points(event)] if self._definitions else []

    def _points(self, event: LogEvent) -> list[MetricPoint]:
        began = time.thread_time()
        points = [
            MetricPoint(name, value, event.time_ms)
            for name in self._worth_running(event.text)
            for value in self._values(name, event.text)
        ]
        self._charge(time.thread_time() - began, LINE_S + CHARACTER_S * len(event.text))
        return points

    def _worth_running(self, text: str) -> list[str]:
        return [name for name, definition in self._definitions.items() if definition.needed in text]

    def _values(self, name: str, text: str) -> list[float]:
        began = time.thread_time() if self._is_watched else 0.0
        try:
            values = list(_values(self._definitions[name], text, self._timeout_s))
        except TimeoutError:
            self._give_up(name, f"its regex takes longer than {self._timeout_s:g} s for a line")
            self._slow += 1
            if self._slow == SLOW:
                self._timeout_s = LATER_S
            return []
        if self._is_watched:
            self._taken_s[name] += time.thread_time() - began
        for value in values:
            if not math.isfinite(value) and (name, str(value)) not in self._odd:
                self._odd.add((name, str(value)))
                self._notes.append(
                    f"sagelet: warning: metric {name[:_SHOWN]!a} became {value}; neither CloudWatch nor "
                    "FinalMetricDataList has it, and a tuning job counts no objective that ends so"
                )
        return values

    def _charge(self, seconds: float, allowed_s: float) -> None:
        """Notes what a line has taken. If all is taken, the definition that has taken most is given up."""
        self._left_s += allowed_s - seconds
        if self._left_s >= ALLOWED_S:
            self._left_s, self._is_watched = ALLOWED_S, False
            self._taken_s.clear()
        elif seconds > allowed_s:
            self._is_watched = True
        if self._left_s < 0 and self._taken_s.keys() & self._definitions.keys():
            worst = max(self._definitions, key=self._taken_s.__getitem__)
            # What the others have taken is little beside it.
            self._left_s += self._taken_s[worst]
            self._give_up(worst, f"its regex took {self._taken_s[worst]:.1f} s of CPU so far")

    def _give_up(self, name: str, why: str) -> None:
        del self._definitions[name]
        self._notes.append(
            f"sagelet: warning: metric {name[:_SHOWN]!a} is left out from here on: {why}; write one that does not "
            "backtrack"
        )


def _values(definition: _Definition, text: str, timeout_s: float) -> Iterator[float]:
    search = definition.regex.finditer
    group = 1 if definition.regex.groups else 0
    for match in search(text) if len(text) <= definition.quick else search(text, concurrent=True, timeout=timeout_s):
        # The group may have taken no part in the match, or be no number. AWS emits nothing then.
        value = None if match[group] is None else number_in(match[group])
        if value is not None:
            yield float32(value)


def float32(value: float) -> float:
    """Rounds a value as CloudWatch and FinalMetricDataList do. Infinite if it is too large for that."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
