"""The search strategies, by the names of botocore's shape HyperParameterTuningJobStrategyType."""

from sagelet_engine.base.errors import SageletError
from sagelet_engine.tuning.strategies.grid import GridSearch
from sagelet_engine.tuning.strategies.random_search import RandomSearch
from sagelet_engine.tuning.strategies.strategy import Strategy

_STRATEGIES: dict[str, Strategy] = {"Grid": GridSearch(), "Random": RandomSearch()}


class StrategyUnavailable(SageletError):
    """sagelet does not have the strategy that a request names."""


def strategy(name: str) -> Strategy:
    """Returns a strategy. Raises StrategyUnavailable, with what to do."""
    if name not in _STRATEGIES:
        raise StrategyUnavailable(
            f"sagelet does not have the tuning strategy {name} as yet; use one of {', '.join(sorted(_STRATEGIES))}"
        )
    return _STRATEGIES[name]
