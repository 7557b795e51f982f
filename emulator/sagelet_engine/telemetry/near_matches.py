"""Why a metric definition matched none of a job's lines: the line that it nearly matches, and what is in its way.

The regex is tried with one obstacle after the other out of its way. Lines and regexes are hostile: of a line the first
LONGEST characters count, each search has a time limit, and a regex that passes it is not tried any further. All
searches of a job share one Budget: a metric for which nothing is left is named without a line.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sagelet_engine.base.number_text import number_in
from sagelet_engine.telemetry.metrics import InvalidRegex, compile_regex
from sagelet_engine.telemetry.patterns import elements

if TYPE_CHECKING:
    import regex

#: Characters of a line that are looked at, and of a line or a regex that are shown.
LONGEST, SHOWN = 1_000, 160
#: Seconds of one search, and of all searches for a job.
TIMEOUT_S, ALL_S = 0.02, 2.0
#: The characters between a metric's name and its value, of which scripts take one or another.
SEPARATORS = frozenset(" =:;,'\"_-\t")
_ANY_SEPARATOR = r"""[\s=:;,'"_-]{0,8}"""
CASE, SEPARATOR, BOTH = "another case", "another separator", "another case and another separator"
NO_GROUP, NO_NUMBER = "it has no group around the number", "its first group is no number"


class Budget:
    """The seconds that are left for a job's searches."""

    def __init__(self, seconds: float = ALL_S, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = seconds
        self._clock = clock

    def search(self, pattern: "regex.Pattern[str]", line: str) -> "regex.Match[str] | None":
        """Raises TimeoutError where the search takes too long, or nothing is left."""
        if self.seconds <= 0:
            raise TimeoutError
        began = self._clock()
        try:
            return pattern.search(line, concurrent=True, timeout=min(TIMEOUT_S, self.seconds))
        finally:
            self.seconds -= self._clock() - began


@dataclass(frozen=True)
class Unmatched:
    """A metric definition without a value."""

    name: str
    regex: str
    #: Lines of the job, and those of them that were compared once more: the last ones of a host.
    lines: int
    compared: int
    #: The last line that nearly matches, cut off. Empty if none does.
    line: str = ""
    #: What is in the way, for people. Empty if no line nearly matches.
    why: str = ""


def unmatched(name: str, text: str, total: int, lines: Sequence[str], budget: Budget) -> Unmatched:
    """`text`: the regex. `lines`: the last lines of the job, the newest last."""
    shown = [line[:LONGEST] for line in reversed(lines)]
    for why, changed, number in _variants(text):
        if near := _near(changed, shown, number, budget):
            return Unmatched(name, text[:SHOWN], total, len(lines), near.strip()[:SHOWN], why)
    return Unmatched(name, text[:SHOWN], total, len(lines))


def _variants(text: str) -> Iterator[tuple[str, str, Callable[[str], bool]]]:
    """Yields what may be in the way, a regex without it, and what its value has to be."""
    loose = _loosened(text)
    yield SEPARATOR, loose, _is_number
    yield CASE, f"(?i){text}", _is_number
    yield BOTH, f"(?i){loose}", _is_number
    try:
        groups = compile_regex(text).groups
    except InvalidRegex:
        return
    yield (NO_NUMBER if groups else NO_GROUP), text, _is_any


def _is_any(_value: str) -> bool:
    return True


def _is_number(value: str) -> bool:
    return number_in(value) is not None


def _loosened(text: str) -> str:
    """Returns the regex with any separators where it has some of its own. As it is if it cannot be taken apart."""
    made: list[str] = []
    for element in elements(text) or ():
        character = element["plain"] or element["escaped"]
        if character not in SEPARATORS and element[0] not in (r"\s*", r"\s+", r"\s"):
            made.append(element[0])
        elif not made or made[-1] != _ANY_SEPARATOR:
            made.append(_ANY_SEPARATOR)
    return "".join(made) or text


def _near(text: str, lines: Sequence[str], fits: Callable[[str], bool], budget: Budget) -> str:
    """Returns the first line in which the regex has a value that fits. Empty if there is none, or time is up."""
    try:
        pattern = compile_regex(text)
        for line in lines:
            match = budget.search(pattern, line)
            value = match[1 if pattern.groups else 0] if match else None
            if value is not None and fits(value):
                return line
    except (InvalidRegex, TimeoutError):
        # Nothing is known of such a regex, and its metric is named all the same.
        return ""
    return ""
