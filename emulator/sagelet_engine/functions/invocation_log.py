"""The log of one invocation, as Lambda writes it, in one order of time.

Times come from two clocks: a line has the time at which it was read or, in Docker, the engine's, and the end has the
time of the host's own clock. CloudWatch Logs refuses a batch that goes back in time. So `in_order` makes one sequence
of both before anything is kept.
"""

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

from sagelet_engine.base.errors import OutputTooLong, RuntimeUnavailable
from sagelet_engine.model.functions import LOG_TAIL, Outcome
from sagelet_engine.model.runtime import Handle, Runtime

log = logging.getLogger(__name__)

#: Lines of a function that go to CloudWatch Logs.
MOST_LINES = 10_000
#: A larger number in an answer does not count.
_MOST_NUMBER = 2**40

#: The time in ms since the epoch, and the text.
LogLine = tuple[int, str]


def printed_lines(runtime: Runtime, handle: Handle) -> list[LogLine]:
    """Returns the lines that a host printed, the first MOST_LINES. The last line says why others are left out."""
    lines: list[LogLine] = []
    try:
        for batch in runtime.lines(handle, None):
            lines += [(line.time_ms, line.text) for line in batch[: MOST_LINES + 1 - len(lines)]]
            if len(lines) > MOST_LINES:
                del lines[MOST_LINES:]
                why = f"a log has at most {MOST_LINES} lines of an invocation"
                return [*lines, (lines[-1][0], f"sagelet: the lines from here on are left out: {why}")]
    except (OutputTooLong, RuntimeUnavailable) as error:
        time_ms = lines[-1][0] if lines else handle.started_ms
        lines.append((time_ms, f"sagelet: the lines from here on are left out: {error}"))
    return lines


def in_order(lines: Iterable[LogLine], end_ms: int) -> list[LogLine]:
    """Returns lines with times that never fall and are at most `end_ms`, in their order."""
    ordered, last_ms = [], 0
    for time_ms, text in lines:
        last_ms = max(last_ms, min(time_ms, end_ms))
        ordered.append((last_ms, text))
    return ordered


def end_lines(note: Mapping[str, Any], outcome: Outcome, answer: Any, lasted_ms: float) -> list[str]:
    """Returns the lines with which Lambda itself ends the log of an invocation.

    `answer`: what the function's process wrote, which may be anything. `lasted_ms`: how long the host ran.
    """
    measured = number(answer, "duration_ms")
    report = _report(note, lasted_ms if measured is None else measured, outcome)
    memory = number(answer, "memory_kib")
    if memory is not None:
        report += f"\tMax Memory Used: {math.ceil(memory / 1024)} MB"
    return [f"END RequestId: {note['request_id']}", report + _status(outcome)]


def tail_of(lines: Iterable[LogLine]) -> bytes:
    """Returns the end of a log as LogResult has it (API reference, Invoke)."""
    return "".join(f"{text}\n" for _, text in lines).encode()[-LOG_TAIL:]


def number(answer: Any, name: str) -> float | None:
    """Returns a number of the answer's file. The function may have written anything there."""
    value = answer.get(name) if isinstance(answer, dict) else None
    sound = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _MOST_NUMBER
    return float(value) if sound and value is not None else None


def _report(note: Mapping[str, Any], lasted_ms: float, outcome: Outcome) -> str:
    """Returns the REPORT line up to the memory that the function was given (developer guide, "Log format")."""
    lasted_ms = note["timeout_seconds"] * 1000 if outcome.timed_out else lasted_ms
    return (
        f"REPORT RequestId: {note['request_id']}\tDuration: {lasted_ms:.2f} ms\t"
        f"Billed Duration: {math.ceil(lasted_ms)} ms\tMemory Size: {note['memory_mib']} MB"
    )


def _status(outcome: Outcome) -> str:
    if outcome.timed_out:
        return "\tStatus: timeout"
    ended = outcome.payload is None and outcome.stack is None
    return f"\tStatus: error\tError Type: {outcome.error}" if ended else ""
