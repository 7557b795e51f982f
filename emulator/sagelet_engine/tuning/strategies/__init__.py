"""The search strategies, by the names of botocore's shape HyperParameterTuningJobStrategyType."""

from importlib import import_module

from sagelet_engine.base.errors import SageletError
from sagelet_engine.tuning.strategies.grid import GridSearch
from sagelet_engine.tuning.strategies.hyperband import Hyperband
from sagelet_engine.tuning.strategies.median import MedianRule
from sagelet_engine.tuning.strategies.random_search import RandomSearch
from sagelet_engine.tuning.strategies.strategy import EarlyStopping, Strategy

BAYESIAN, HYPERBAND = "Bayesian", "Hyperband"
_STRATEGIES: dict[str, Strategy] = {"Grid": GridSearch(), HYPERBAND: Hyperband(), "Random": RandomSearch()}


class StrategyUnavailable(SageletError):
    """This installation does not have the strategy that a request names."""


def strategy(name: str) -> Strategy:
    """Returns a strategy. Raises StrategyUnavailable, with what to do. The first Bayesian one loads optuna."""
    if name == BAYESIAN and name not in _STRATEGIES:
        _STRATEGIES[name] = _bayesian()
    return _STRATEGIES[name]


def _bayesian() -> Strategy:
    try:
        module = import_module("sagelet_engine.tuning.strategies.bayesian")
    except ModuleNotFoundError as error:
        raise StrategyUnavailable(
            f"The tuning strategy Bayesian needs the package {error.name}, which this server lacks. Install what "
            "sagelet's extra `tuning` has in the server's environment (pip install 'optuna>=5,<6') and restart the "
            "server, or use one of Grid, Hyperband, Random"
        ) from error
    made: Strategy = module.BayesianSearch()
    return made


def early_stopping(strategy_name: str, *, auto: bool) -> EarlyStopping | None:
    """Returns what stops trials early. `auto`: TrainingJobEarlyStoppingType is Auto."""
    if strategy_name == HYPERBAND:
        return Hyperband()
    return MedianRule() if auto else None
