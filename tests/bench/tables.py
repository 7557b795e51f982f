"""What a section of `make bench` finds, as a page shows it: tables of figures, and the promises about them."""

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
    #: What the pages show.
    FULL = "full"
    #: Seconds, for CI. It looks at counts and never at times.
    SHORT = "short"


@dataclass(frozen=True)
class Figure:
    """A median, and the least and the most of the runs that it is of."""

    value: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        return cls(median(values), min(values), max(values))

    def over(self, other: "Figure") -> "Figure":
        """The ratio of two figures. Its interval is the widest that any two of their runs give."""
        return Figure(self.value / other.value, self.least / other.most, self.most / other.least)

    def __str__(self) -> str:
        if self.least == self.most:
            return number(self.value)
        return f"{number(self.value)} ({number(self.least, 2)} to {number(self.most, 2)})"


def against_peer(ratio: Figure) -> str:
    """A ratio against a peer. Its interval must not hold 1, or nobody knows who is ahead."""
    return f"{ratio}, {TOO_NOISY}" if ratio.least < 1 < ratio.most else str(ratio)


@dataclass(frozen=True)
class Bar:
    """A promise about a figure of the same row."""

    #: What is promised, with its unit: `p99 ms`.
    what: str
    measured: Figure | float
    limit: float
    #: Whether the figure must stay below the limit, or reach it.
    at_most: bool = False

    @property
    def verdict(self) -> str:
        one = self.measured
        found = one if isinstance(one, Figure) else Figure(one, one, one)
        if found.most <= self.limit if self.at_most else found.least >= self.limit:
            return "met"
        if found.least > self.limit if self.at_most else found.most < self.limit:
            return "**MISSED**"
        return TOO_NOISY

    def __str__(self) -> str:
        return f"{self.what} {'at most' if self.at_most else 'at least'} {number(self.limit)}: {self.verdict}"


Cell = str | int | float | Figure | Bar


@dataclass(frozen=True)
class Table:
    """Columns name their units: `p99 ms`. The first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    #: What was done, how often, and what an interval is of.
    conditions: str
    #: What must be true at any scale and speed: operations done beside `... planned`, and `... errors`.
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def wrong(self) -> list[str]:
        """The counts that are not as planned."""
        planned = {name: self.counts.get(f"{name} planned") for name in self.counts}
        return [
            f"{self.title}: {name}: {count:,}, planned {planned[name]}"
            for name, count in self.counts.items()
            if planned[name] not in (None, count) or (name.endswith("errors") and count)
        ]

    def __str__(self) -> str:
        """In Markdown."""
        lines = [self.columns, ("---",) * len(self.columns), *(tuple(map(text, row)) for row in self.rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"**{self.title}.** {self.conditions}\n\n{table}"


def text(cell: Cell) -> str:
    return number(cell) if isinstance(cell, (int, float)) else str(cell)


def number(value: float, digits: int = 3) -> str:
    """A whole number in full; another one with so many digits that mean something, and as many decimals at most."""
    if isinstance(value, int) or not value:
        return f"{value:,.0f}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(decimals, 0), digits)}f}"


def percentile(values: Sequence[float], percent: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def in_turns(rounds: int, runs: Mapping[Name, Callable[[], Found]]) -> dict[Name, list[Found]]:
    """Runs each once a round, every second round in reverse order, so that a load of the machine weighs on all."""
    found: dict[Name, list[Found]] = {name: [] for name in runs}
    for round_ in range(rounds):
        for name in list(runs)[:: -1 if round_ % 2 else 1]:
            found[name].append(runs[name]())
    return found
