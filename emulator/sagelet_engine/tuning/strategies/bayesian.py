"""Bayesian search, by optuna's Tree-structured Parzen Estimator.

A Gaussian process finds better points of smooth functions, but optuna's needs torch in the server's process, which not
every installation has. docs/how-to/tuning.md has figures of this one.
"""

import hashlib
import logging
import math
import warnings
from collections.abc import Sequence

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from sagelet_engine.tuning.strategies.random_search import RandomSearch
from sagelet_engine.tuning.strategies.space import Categorical, InvalidRange, Parameter, Space
from sagelet_engine.tuning.strategies.strategy import PastTrial, Settings, Values

#: So many trials are random, before there is anything to learn from: a share of MaxNumberOfTrainingJobs, six at most.
RANDOM_SHARE, RANDOM_TRIALS = 1 / 3, 6
#: Tries for values that no trial has had. A small space may have none.
TRIES = 8

# It reports every study at the level INFO, and each proposal makes one. The program of a test may use optuna itself, so
# no other logger of it changes.
logging.getLogger("optuna.storages._in_memory").setLevel(logging.WARNING)


class BayesianSearch:
    """A Strategy. A proposal follows from the seed and the past trials alone, so it keeps no study between calls.

    A running trial counts as a bad one (optuna's `constant_liar`), so that parallel trials spread out. So does a trial
    that failed.
    """

    def propose(
        self, space: Space, settings: Settings, seed: int, trials: Sequence[PastTrial], count: int, /
    ) -> list[Values]:
        known = list(trials)
        while len(known) < len(trials) + count:
            known.append(PastTrial(self._next(space, settings, seed, known), ended=False, objective=None))
        return [dict(one.values) for one in known[len(trials) :]]

    def _next(self, space: Space, settings: Settings, seed: int, trials: Sequence[PastTrial]) -> Values:
        if sum(one.objective is not None for one in trials) < _random_trials(settings) or not space.parameters:
            return RandomSearch().propose(space, settings, seed, trials, 1)[0]
        study = optuna.create_study(direction="maximize" if settings.maximize else "minimize")
        study.add_trials([one for trial in trials if (one := _known(space, trial)) is not None])
        tried = {tuple(one.values.items()) for one in trials}
        values: Values = {}
        for attempt in range(TRIES):
            study.sampler = _sampler(_seed(seed, len(trials), attempt))
            values = _values(space, study.ask({one.name: _distribution(one) for one in space.parameters}))
            if tuple(values.items()) not in tried:
                break
        return values


def _random_trials(settings: Settings) -> int:
    most = RANDOM_TRIALS if settings.max_trials is None else math.ceil(settings.max_trials * RANDOM_SHARE)
    return min(RANDOM_TRIALS, most)


def _good(trials: int) -> int:
    """Returns how many of so many trials count as good. Of a tuning job's few trials optuna's own tenth is too few."""
    return math.ceil(trials / 5)


def _sampler(seed: int) -> TPESampler:
    with warnings.catch_warnings():
        # optuna 6 will have no `gamma`. A program under test that turns warnings into errors must not stop the search.
        warnings.simplefilter("ignore", FutureWarning)
        return TPESampler(seed=seed, n_startup_trials=0, gamma=_good, multivariate=True, constant_liar=True)


def _seed(*numbers: int) -> int:
    """Returns 32 bits, all that numpy's generator takes."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:4], "big")


def _distribution(parameter: Parameter) -> BaseDistribution:
    """Numbers are searched by their positions, so that the scale is that of all strategies."""
    if isinstance(parameter, Categorical):
        return CategoricalDistribution(range(len(parameter.values)))
    return FloatDistribution(0.0, 1.0)


def _values(space: Space, trial: optuna.Trial) -> Values:
    return {
        one.name: one.values[found] if isinstance(one, Categorical) else one.value(found)
        for one in space.parameters
        for found in [trial.params[one.name]]
    }


def _known(space: Space, trial: PastTrial) -> FrozenTrial | None:
    """Returns a past trial in optuna's words. None if it has other hyperparameters, as a parent's may."""
    try:
        params = {one.name: _choice(one, trial.values[one.name]) for one in space.parameters}
    except (InvalidRange, KeyError, ValueError):
        return None
    state = TrialState.PRUNED if trial.ended else TrialState.RUNNING
    return create_trial(
        state=state if trial.objective is None else TrialState.COMPLETE,
        value=trial.objective,
        params=params,
        distributions={one.name: _distribution(one) for one in space.parameters},
    )


def _choice(parameter: Parameter, value: str) -> float:
    """Returns what optuna chose to get a value. Raises InvalidRange, ValueError."""
    at = parameter.position(value)
    if isinstance(parameter, Categorical):
        return parameter.values.index(value)
    # Its own arithmetic may lead a little beyond the ends.
    return min(1.0, max(0.0, at))
