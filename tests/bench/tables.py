"""The results of a section of `make bench` as a page shows them: tables of figures, with the promises about them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median
from typing import TypeVar

Name = TypeVar("Name")
Found = TypeVar("Found")
TOO_NOISY = "too noisy to say"


class Scale(str, Enum):
    #: For the pages.
    FULL = "full"
    #: Seconds, for CI, which checks counts and never times.
    SHORT = "short"


@dataclass(frozen=True)
class Figure:
    """A median, with the least and the most of its runs."""

    value: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        return cls(median(values), min(values), max(values))

    def over(self, other: "Figure") -> "Figure":
        """Returns the ratio of two figures. Its interval is the widest that any two of their runs give."""
        return Figure(self.value / other.value, self.least / other.most, self.most / other.least)

    def __str__(self) -> str:
        if self.least == self.most:
            return number(self.value)
        return f"{number(self.value)} ({number(self.least, 2)} to {number(self.most, 2)})"


def against_peer(ratio: Figure) -> str:
    """A ratio to a peer as text. If its interval contains 1, nobody knows who is faster, and the text says so."""
    return f"{ratio}, {TOO_NOISY}" if ratio.least < 1 < ratio.most else str(ratio)


@dataclass(frozen=True)
class Bar:
    """A promise about a figure of the same row. `what` names it with its unit: `p99 ms`."""

    what: str
    measured: Figure | float
    limit: float
    #: True if the figure must stay below the limit. False if it must reach it.
    at_most: bool = False

    def __str__(self) -> str:
        return f"{self.what} {'at most' if self.at_most else 'at least'} {number(self.limit)}: {self.verdict}"

    @property
    def verdict(self) -> str:
        one = self.measured
        least, most = (one.least, one.most) if isinstance(one, Figure) else (one, one)
        if most <= self.limit if self.at_most else least >= self.limit:
            return "met"
        return "**MISSED**" if (least > self.limit if self.at_most else most < self.limit) else TOO_NOISY


Cell = str | int | float | Figure | Bar
Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Columns name their units: `p99 ms`. The first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    #: What was done, how often, and what an interval is of.
    conditions: str
    #: Operations that were done, and those that were planned. They are equal at any scale and speed.
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def wrong(self) -> list[str]:
        """The counts that are not as planned."""
        counts = self.counts.items()
        return [
            f"{self.title}: {name}: {done:,}, planned {planned:,}"
            for name, (done, planned) in counts
            if done != planned
        ]

    def __str__(self) -> str:
        """Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *(tuple(map(text, row)) for row in self.rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"**{self.title}.** {self.conditions}\n\n{table}"


def text(cell: Cell) -> str:
    return number(cell) if isinstance(cell, (int, float)) else str(cell)


def number(value: float, digits: int = 3) -> str:
    """A whole number in full. Others have this many significant digits, and as many decimals at most."""
    if isinstance(value, int) or not value:
        return f"{value:,.0f}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(decimals, 0), digits)}f}"


def percentiles_ms(seconds: Sequence[float], *percents: float) -> list[float]:
    """Percentiles of times in seconds, in milliseconds."""
    ordered, last = sorted(seconds), len(seconds) - 1
    return [1000 * ordered[min(last, int(len(ordered) * percent / 100))] for percent in percents]


def in_turns(rounds: int, runs: Mapping[Name, Callable[[], Found]]) -> dict[Name, list[Found]]:
    """Runs each once a round, every second round in reverse order, so that a load of the machine affects all."""
    found: dict[Name, list[Found]] = {name: [] for name in runs}
    for round_ in range(rounds):
        for name in list(runs)[:: -1 if round_ % 2 else 1]:
            found[name].append(runs[name]())
    return found
