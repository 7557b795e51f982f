"""Hyperband: random trials, most of which are stopped early. Several brackets differ in how early that is.

Hyperband is of Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization" (JMLR 2018). Its
asynchronous form, which AWS runs, is ASHA, of Li et al., "A System for Massively Parallel Hyperparameter Tuning"
(MLSys 2020).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sagelet_engine.base.errors import SageletError
from sagelet_engine.tuning.strategies.random_search import RandomSearch
from sagelet_engine.tuning.strategies.space import Space
from sagelet_engine.tuning.strategies.strategy import Course, Curve, PastTrial, Settings, Values

#: One of so many trials goes on at each rung. Both papers use 3 or 4.
REDUCTION = 3
#: The greatest MaxResource, and the hyperparameters that it is read from (botocore shape HyperbandStrategyConfig).
GREATEST = 20_000
EPOCHS = ("epochs", "numepochs", "n-epochs", "n_epochs", "num_epochs")


class InvalidResources(SageletError):
    """MinResource and MaxResource do not say how long a training job may train."""


@dataclass(frozen=True)
class Resources:
    """Epochs of one training job: before `least` it is not stopped, and it has `most` at most."""

    least: int
    most: int

    @property
    def rungs(self) -> list[int]:
        """The numbers of epochs after which trials are compared: `least`, three times as many, and so on."""
        found = []
        rung = self.least
        while rung < self.most:
            found.append(rung)
            rung *= REDUCTION
        return found


def resources(config: Mapping[str, Any], static: Mapping[str, str]) -> Resources:
    """Reads StrategyConfig and, for a missing MaxResource, the static hyperparameters. Raises InvalidResources."""
    given = config.get("HyperbandStrategyConfig", {})
    most = given["MaxResource"] if "MaxResource" in given else _epochs(static)
    if most is None:
        raise InvalidResources(
            "Hyperband needs HyperbandStrategyConfig.MaxResource, the most epochs of a training job; give it, or one "
            f"of the static hyperparameters {', '.join(EPOCHS)}"
        )
    if not 1 <= most <= GREATEST:
        raise InvalidResources(f"MaxResource {most} must be from 1 to {GREATEST}")
    least = given.get("MinResource", 1)
    if least > most:
        raise InvalidResources(f"MinResource {least} must not be greater than MaxResource {most}")
    return Resources(least, most)


def _epochs(static: Mapping[str, str]) -> int | None:
    for name in EPOCHS:
        # The SDK writes hyperparameters as JSON, so a number may be in quotes.
        text = static.get(name, "").strip().strip('"')
        if text.isascii() and text.isdecimal():
            return int(text)
    return None


@lru_cache(maxsize=16)
def brackets(rungs: int, count: int) -> tuple[int, ...]:
    """Returns the bracket of each of `count` trials. A trial of bracket n is not compared at the first n rungs.

    A round of Hyperband has ceil((rungs + 1) / (halvings + 1) * 3 ** halvings) trials in the bracket with so many
    halvings. Trials are dealt out in these proportions, so that few trials are in all brackets as well.
    """
    halvings = range(rungs, -1, -1)
    shares = [math.ceil((rungs + 1) / (one + 1) * REDUCTION**one) for one in halvings]
    dealt = [0] * len(shares)
    found = []
    for number in range(count):
        behind = [share * (number + 1) - sum(shares) * had for share, had in zip(shares, dealt, strict=True)]
        bracket = behind.index(max(behind))
        dealt[bracket] += 1
        found.append(bracket)
    return tuple(found)


class Hyperband:
    """A Strategy and its EarlyStopping."""

    def propose(
        self, space: Space, settings: Settings, seed: int, trials: Sequence[PastTrial], count: int, /
    ) -> list[Values]:
        return RandomSearch().propose(space, settings, seed, trials, count)

    def losers(self, settings: Settings, courses: Sequence[Course], /) -> list[int]:
        """A trial goes on at a rung if it is among the best third of those that have reached the rung before it.

        So a decision follows from the order of the values and not from the moment at which somebody looks. A trial is
        also stopped by a value beyond MaxResource: one whose script ends there by itself can write its model.
        """
        limits = resources(settings.config, settings.static)
        rungs = limits.rungs
        bracket = brackets(len(rungs), len(courses))

        def loses(place: int, curve: Curve) -> bool:
            if len(curve) > limits.most:
                return True
            peers = [one.curve for one, other in zip(courses, bracket, strict=True) if other == bracket[place]]
            passed = [rung for rung in rungs[bracket[place] :] if rung <= len(curve)]
            return not all(_goes_on(settings, curve, peers, rung) for rung in passed)

        return [place for place, one in enumerate(courses) if one.running and loses(place, one.curve)]


def _goes_on(settings: Settings, curve: Curve, peers: Sequence[Curve], rung: int) -> bool:
    """True if a trial is good enough at a rung that it has reached. `peers` contain the trial itself."""
    value, order = curve.values[rung - 1], curve.orders[rung - 1]
    there = [one.values[rung - 1] for one in peers if len(one) >= rung and one.orders[rung - 1] <= order]
    return sum(settings.better(other, value) for other in there) < max(1, len(there) // REDUCTION)
