"""What a search strategy is: a pure function of the space, the seed and the trials so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
