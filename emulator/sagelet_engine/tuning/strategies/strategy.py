"""What a search strategy is: a pure function of the space, the seed and the trials so far. So is early stopping."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sagelet_engine.tuning.strategies.space import Space

#: TunedHyperParameters of one trial.
Values = dict[str, str]


@dataclass(frozen=True)
class Settings:
    """What a strategy reads of the request in addition to the ranges."""

    #: True if a greater objective is better.
    maximize: bool
    #: StrategyConfig of the request; empty if it has none.
    config: Mapping[str, Any]
    #: MaxNumberOfTrainingJobs; None if the request has none.
    max_trials: int | None
    #: StaticHyperParameters of the definition.
    static: Mapping[str, str] = field(default_factory=dict)

    def better(self, one: float, other: float) -> bool:
        return one > other if self.maximize else one < other


@dataclass(frozen=True)
class PastTrial:
    """A trial that has been created before, in the order of creation."""

    values: Mapping[str, str]
    ended: bool
    #: The objective of an ended trial. None if it has none.
    objective: float | None


class Strategy(Protocol):
    """Chooses hyperparameters. The same arguments give the same result, on every machine and after every restart."""

    def propose(
        self, space: Space, settings: Settings, seed: int, trials: Sequence[PastTrial], count: int, /
    ) -> list[Values]:
        """Returns the values of the next trials, `count` at most. Fewer mean that the space is exhausted, or that the
        strategy waits for trials that have not ended.
        """
        ...


class Curve:
    """The values of the objective metric that a training job has reported, in order. AWS takes each for an epoch."""

    def __init__(self) -> None:
        self.values: list[float] = []
        #: For each value, a number that grows with every value that any training job reports.
        self.orders: list[int] = []
        self._sums: list[float] = []

    def __len__(self) -> int:
        return len(self.values)

    def add(self, order: int, value: float) -> None:
        self._sums.append(value + (self._sums[-1] if self._sums else 0.0))
        self.values.append(value)
        self.orders.append(order)

    def average(self, epochs: int) -> float:
        """Returns the mean of the first `epochs` values, at least one."""
        return self._sums[epochs - 1] / epochs


@dataclass(frozen=True)
class Course:
    """How a trial goes: what it has reported, and whether it runs or has completed."""

    curve: Curve
    running: bool
    completed: bool


class EarlyStopping(Protocol):
    """Chooses the trials that are not worth their further epochs."""

    def losers(self, settings: Settings, courses: Sequence[Course], /) -> list[int]:
        """Returns the places of the running trials to stop. `courses`: of all trials, in the order of creation."""
        ...
