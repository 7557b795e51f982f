"""Metric definitions: numbers out of log lines.

As on AWS: Python's regular expressions, group 1 only, values as float32, so a regex that cuts `2.38e-05` down to
`2.38` gives 2.38 here, too. They are run by the library `regex`, which understands the same language, lets other
threads work meanwhile and can be told to give up: with `re`, one definition that backtracks for ever stops the server.
"""

import logging
import math
import struct
from collections.abc import Iterable, Iterator, Mapping

import regex

from sagelet_engine.telemetry.events import LogEvent
from sagelet_engine.telemetry.sink import MetricPoint

log = logging.getLogger(__name__)

#: Seconds that one definition may take for one line; an honest one takes microseconds.
PATIENCE = 1.0


class InvalidMetricRegex(ValueError):
    """A metric definition's regex does not compile."""


def compile_regex(text: str) -> "regex.Pattern[str]":
    """Raises InvalidMetricRegex."""
    try:
        return regex.compile(text)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InvalidMetricRegex(str(error)) from error


class MetricDefinitions:
    """The compiled MetricDefinitions of a job. Raises InvalidMetricRegex."""

    def __init__(self, definitions: Iterable[Mapping[str, str]]) -> None:
        self._definitions = {entry["Name"]: compile_regex(entry["Regex"]) for entry in definitions}

    def points(self, events: Iterable[LogEvent]) -> list[MetricPoint]:
        """Every value that the events hold, in order. A definition that takes too long is given up for good."""
        if not self._definitions:
            return []
        return [
            MetricPoint(name, value, event.time_ms)
            for event in events
            for name in list(self._definitions)
            for value in self._values(name, event.text)
        ]

    def _values(self, name: str, text: str) -> list[float]:
        try:
            return list(_values(self._definitions[name], text))
        except TimeoutError:
            del self._definitions[name]
            log.warning("The metric definition %r takes longer than %s s for a line; it is left out", name, PATIENCE)
            return []


def _values(definition: "regex.Pattern[str]", text: str) -> Iterator[float]:
    for match in definition.finditer(text, concurrent=True, timeout=PATIENCE):
        try:
            value = float32(float(match[1] if definition.groups else match[0]))
        except (TypeError, ValueError):
            # The group took no part in the match or is not a number: AWS emits nothing for it.
            continue
        # CloudWatch and JSON know neither NaN nor infinity.
        if math.isfinite(value):
            yield value


def float32(value: float) -> float:
    """The value as CloudWatch and FinalMetricDataList carry it; infinite when it is too large for that."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
