"""Random search: every trial is drawn by itself."""

import random
from collections.abc import Sequence

from sagelet_engine.tuning.strategies.space import Space
from sagelet_engine.tuning.strategies.strategy import PastTrial, Settings, Values


class RandomSearch:
    """A Strategy. The values of a trial follow from the seed and its number alone, not from how earlier ones ended."""

    def propose(
        self, space: Space, _settings: Settings, seed: int, trials: Sequence[PastTrial], count: int, /
    ) -> list[Values]:
        first = len(trials)
        return [self._trial(space, seed, number) for number in range(first, first + count)]

    def _trial(self, space: Space, seed: int, number: int) -> Values:
        # Python documents that a text seeds the same sequence in all versions.
        chance = random.Random(f"{seed}/{number}")
        return space.values([chance.random() for _ in space.parameters])
