"""Hundreds of tuning jobs, each a function of its seed, with kills, faults and stops at any step.

`SAGELET_SEED=N` lives one of them; `SAGELET_TEST_TUNINGS=N` as many as one likes.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sagelet_engine.model import tuning as model
from sagelet_engine.store.orchestrations import Kept
from sagelet_engine.tuning import decision, work
from sagelet_engine.tuning.strategies.grid import GridSearch
from support.tuning_histories import BrokenRule, run_all

TUNINGS = int(os.environ.get("SAGELET_TEST_TUNINGS", "500"))
ONE = os.environ.get("SAGELET_SEED")
#: In which each of the mistakes has to be found.
MUTANT_TUNINGS = 120


def test_every_tuning_job_keeps_the_rules() -> None:
    seeds = range(TUNINGS) if ONE is None else range(int(ONE), int(ONE) + 1)
    happened = run_all(seeds)
    print(dict(happened))
    if TUNINGS >= 500 and ONE is None:
        # The histories reach what they are about.
        wanted = ("Completed", "Failed", "Stopped", "kills", "faults", "store unavailable", "halted", "stops")
        assert all(happened[one] for one in wanted), happened


def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training jobs are created before the record names them."""
    real = Kept.update

    def update(self: Any, job: Any, changed: Any = (), removed: Any = ()) -> Any:
        return real(self, job, [one for one in changed if one.state is not model.TrialState.PLANNED], removed)

    monkeypatch.setattr(Kept, "update", update)


def one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parallel limit is one more than asked for."""
    real = model.TuningSpec.of

    def generous(request: Any) -> model.TuningSpec:
        spec = real(request)
        return replace(spec, max_parallel=spec.max_parallel + 1)

    monkeypatch.setattr(model.TuningSpec, "of", generous)


def never_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training jobs of a tuning job that winds down run on, and it does not wait for them."""
    monkeypatch.setattr(work.TuningWork, "_halt", lambda *_: None)
    real = decision.decide

    def hasty(job: Any, before: Any, trials: Any, *rest: Any) -> Any:
        return real(job, before, [one for one in trials if one.ended] if decision.winds_down(job) else trials, *rest)

    monkeypatch.setattr(work, "decide", hasty)


def worst_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.Objective, "better", lambda _self, one, other: one > other)


def same_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid begins anew at every proposal."""
    real = GridSearch.propose

    def forgetful(self: Any, space: Any, settings: Any, seed: int, _trials: Any, count: int) -> Any:
        return real(self, space, settings, seed, [], count)

    monkeypatch.setattr(GridSearch, "propose", forgetful)


MISTAKES = [unwritten, one_too_many, never_stopped, worst_is_best, same_point]


@pytest.mark.parametrize("mistake", MISTAKES if ONE is None else [])
def test_a_mistake_in_the_engine_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenRule, match=r"seed \d+"):
        run_all(range(MUTANT_TUNINGS))
