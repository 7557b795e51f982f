"""Grid search: every combination of categorical values once."""

import math
from collections.abc import Sequence

from sagelet_engine.tuning.strategies.space import Categorical, InvalidRange, Space
from sagelet_engine.tuning.strategies.strategy import PastTrial, Settings, Values


def size(space: Space) -> int:
    """Returns the number of combinations. Raises InvalidRange for a parameter that is not categorical, as AWS does."""
    return math.prod(len(values) for _, values in _axes(space))


class GridSearch:
    """A Strategy. The last parameter changes fastest, as in nested loops."""

    def propose(
        self, space: Space, _settings: Settings, _seed: int, trials: Sequence[PastTrial], count: int, /
    ) -> list[Values]:
        first = len(trials)
        return [self._trial(space, number) for number in range(first, min(first + count, size(space)))]

    def _trial(self, space: Space, number: int) -> Values:
        chosen: Values = {}
        for name, values in reversed(_axes(space)):
            number, index = divmod(number, len(values))
            chosen[name] = values[index]
        return dict(reversed(chosen.items()))


def _axes(space: Space) -> list[tuple[str, tuple[str, ...]]]:
    axes = []
    for one in space.parameters:
        if not isinstance(one, Categorical):
            raise InvalidRange(
                f"Grid search takes categorical parameters only; {one.name} has a range. List its values in "
                "CategoricalParameterRanges, or use the strategy Random"
            )
        axes.append((one.name, one.values))
    return axes
