"""Early stopping: AWS's median rule, and the rungs of Hyperband."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagelet_engine.tuning.strategies.hyperband import Hyperband, InvalidResources, Resources, brackets, resources
from sagelet_engine.tuning.strategies.median import MedianRule
from sagelet_engine.tuning.strategies.strategy import Course, Curve, Settings

MINIMIZE = Settings(maximize=False, config={}, max_trials=None)
MAXIMIZE = Settings(maximize=True, config={}, max_trials=None)


def curve(values: list[float], first: int = 1) -> Curve:
    made = Curve()
    for order, value in enumerate(values, first):
        made.add(order, value)
    return made


def runs(*values: float) -> Course:
    return Course(curve([*values]), running=True, completed=False)


def completed(*values: float) -> Course:
    return Course(curve([*values]), running=False, completed=True)


def stopped(*values: float) -> Course:
    return Course(curve([*values]), running=False, completed=False)


# --- the median rule --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("courses", "losers"),
    [
        ([], []),
        ([runs(9.0)], []),
        # Nothing has been reported, or nothing has been completed.
        ([completed(1.0, 1.0), runs()], []),
        ([stopped(1.0), runs(2.0)], []),
        ([completed(1.0, 1.0), runs(2.0)], [1]),
        ([completed(1.0, 1.0), runs(1.0)], []),
        # The average of the first two epochs is 2, although the second is 1.
        ([completed(3.0, 1.0, 0.1), runs(9.0, 2.0)], []),
        ([completed(3.0, 1.0, 0.1), runs(1.0, 2.1)], [1]),
        # The median of 1, 2 and 9.
        ([completed(1.0), completed(2.0), completed(9.0), runs(2.0), runs(2.5)], [4]),
        # The one that ended earlier has no average up to this epoch.
        ([completed(0.1), completed(3.0, 3.0), runs(9.0, 2.0)], []),
        ([completed(0.1), runs(9.0, 2.0)], []),
    ],
)
def test_the_median_rule(courses: list[Course], losers: list[int]) -> None:
    assert MedianRule().losers(MINIMIZE, courses) == losers


def test_the_median_rule_knows_the_direction() -> None:
    courses = [completed(0.5), runs(0.4), runs(0.6)]
    assert MedianRule().losers(MINIMIZE, courses) == [2]
    assert MedianRule().losers(MAXIMIZE, courses) == [1]


VALUES = st.lists(st.floats(-100, 100), max_size=6)
COURSES = st.lists(st.builds(lambda values, kind: kind(*values), VALUES, st.sampled_from([runs, completed, stopped])))


@given(COURSES, st.booleans())
def test_the_median_rule_spares_one_at_least_as_good_as_all_before(courses: list[Course], maximize: bool) -> None:
    how = MAXIMIZE if maximize else MINIMIZE
    losers = MedianRule().losers(how, courses)
    assert all(courses[place].running and len(courses[place].curve) for place in losers)
    for place, one in enumerate(courses):
        earlier = [value for other in courses if other.completed for value in other.curve.values]
        if len(one.curve) and not any(how.better(value, one.curve.values[-1]) for value in earlier):
            assert place not in losers


# --- Hyperband --------------------------------------------------------------------------------------------------------


def hyperband(least: int, most: int, maximize: bool = False) -> Settings:
    config = {"HyperbandStrategyConfig": {"MinResource": least, "MaxResource": most}}
    return Settings(maximize=maximize, config=config, max_trials=None)


def test_a_round_of_hyperband_has_the_papers_brackets() -> None:
    # Table 1 of the paper: R = 81 and a reduction by 3 have rungs at 1, 3, 9 and 27 epochs.
    assert Resources(1, 81).rungs == [1, 3, 9, 27]
    dealt = brackets(4, 81 + 34 + 15 + 8 + 5)
    assert [dealt.count(bracket) for bracket in range(5)] == [81, 34, 15, 8, 5]
    # Few trials are in several brackets, too, and more of them change nothing for those before.
    assert set(dealt[:8]) >= {0, 1, 2}
    assert brackets(4, 10) == dealt[:10]


@pytest.mark.parametrize(
    ("config", "static", "expected"),
    [
        ({"MinResource": 2, "MaxResource": 9}, {}, Resources(2, 9)),
        ({"MaxResource": 9}, {"epochs": "5"}, Resources(1, 9)),
        ({}, {"epochs": "5"}, Resources(1, 5)),
        ({"MinResource": 2}, {"num_epochs": '"7"'}, Resources(2, 7)),
    ],
)
def test_resources(config: dict[str, int], static: dict[str, str], expected: Resources) -> None:
    assert resources({"HyperbandStrategyConfig": config} if config else {}, static) == expected


@pytest.mark.parametrize(
    ("config", "static", "text"),
    [
        ({}, {"epochs": "many"}, "Hyperband needs HyperbandStrategyConfig.MaxResource"),
        ({"MaxResource": 20_001}, {}, "MaxResource 20001 must be from 1 to 20000"),
        ({}, {"epochs": "0"}, "MaxResource 0 must be from 1 to 20000"),
        ({"MinResource": 4, "MaxResource": 3}, {}, "MinResource 4 must not be greater than MaxResource 3"),
    ],
)
def test_resources_that_say_too_little_are_refused(config: dict[str, int], static: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidResources) as caught:
        resources({"HyperbandStrategyConfig": config}, static)
    assert text in str(caught.value)


def in_turn(*curves: list[float]) -> list[Course]:
    """Courses in which a trial has reported everything before the next one starts."""
    made, first = [], 1
    for values in curves:
        made.append(Course(curve(values, first), running=True, completed=False))
        first += len(values)
    return made


def test_a_trial_goes_on_if_it_is_among_the_best_third_of_those_before_it() -> None:
    # With one rung, at 1 epoch, a round has 3 trials that are compared and 2 that are not.
    how = hyperband(1, 3)
    assert brackets(1, 5) == (0, 1, 0, 1, 0)
    # Of the compared trials (0, 2, 4) the first goes on, the second is worse, and the third is the best of three.
    assert Hyperband().losers(how, in_turn([0.5], [9.0], [0.6], [9.0], [0.4])) == [2]
    # The better ones that come later do not stop those that went on before.
    assert Hyperband().losers(how, in_turn([0.5], [], [0.4], [], [0.3])) == []
    assert Hyperband().losers(hyperband(1, 3, maximize=True), in_turn([0.5], [], [0.4], [], [0.3])) == [2, 4]


def test_nothing_is_stopped_before_min_resource_or_kept_beyond_max_resource() -> None:
    courses = in_turn([0.1, 0.1], [0.9, 0.9], [0.9, 0.9], [0.9, 0.9], [0.9, 0.9])
    assert Hyperband().losers(hyperband(3, 9), courses) == []
    assert Hyperband().losers(hyperband(2, 2), courses) == []
    assert Hyperband().losers(hyperband(1, 1), courses) == [0, 1, 2, 3, 4]


@given(st.lists(VALUES, max_size=12), st.integers(1, 3), st.integers(0, 6), st.randoms(use_true_random=False))
def test_hyperband_decides_the_same_whenever_somebody_looks(
    columns: list[list[float]], least: int, more: int, chance: Any
) -> None:
    """A decision at a rung follows from the values up to it, so it never changes."""
    how = hyperband(least, least + more)
    courses = [Course(Curve(), running=True, completed=False) for _ in columns]
    left = [list(values) for values in columns]
    lost: set[int] = set()
    order = 0
    while any(left):
        place = chance.choice([place for place, values in enumerate(left) if values])
        order += 1
        courses[place].curve.add(order, left[place].pop(0))
        now = set(Hyperband().losers(how, courses))
        assert lost <= now <= lost | {place}
        assert all(len(courses[place].curve) >= least for place in now)
        lost = now
    ended = [Course(one.curve, running=False, completed=True) for one in courses]
    assert Hyperband().losers(how, ended) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.booleans())
def test_at_each_rung_the_best_one_goes_on(values: list[float], maximize: bool) -> None:
    how = hyperband(1, 2, maximize)
    courses = in_turn(*([value] for value in values))
    losers = Hyperband().losers(how, courses)
    compared = [place for place, bracket in enumerate(brackets(1, len(values))) if bracket == 0]
    best = max(compared, key=lambda place: values[place] if maximize else -values[place])
    assert best not in losers
    assert set(losers) <= set(compared)
