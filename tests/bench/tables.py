"""What a section of `make bench` finds: tables of figures, and the bars of the design that they are held to."""

from dataclasses import dataclass, field
from enum import Enum


class Scale(str, Enum):
    #: What docs/benchmarks.md shows.
    FULL = "full"
    #: Seconds; for CI, which looks at counts and never at times.
    SHORT = "short"


@dataclass(frozen=True)
class Bar:
    """One figure that the design promises."""

    #: A phrase, with its unit: `one page, p99 ms`. A ratio against a peer ends so: `put of 1 GiB, moto / sagelet`.
    what: str
    measured: float
    limit: float
    #: Whether the figure must stay below the limit, or reach it.
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit

    @property
    def peer(self) -> str:
        """Whom the figure is a ratio against; empty when it is a figure of its own."""
        whom, slash, rest = self.what.rpartition(" / ")
        return whom.rpartition(", ")[2] if slash and rest == "sagelet" else ""


@dataclass(frozen=True)
class Table:
    """Columns are units, too: `p99 ms`. The first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | int, ...], ...]
    #: What was done, how often, and what the spread is of: a sentence or two.
    conditions: str
    bars: tuple[Bar, ...] = ()
    #: What must be true of a run at any scale, whatever its speed: operations done, errors, programs compiled.
    counts: dict[str, int] = field(default_factory=dict)
