"""The strategies of tuning jobs: ranges, scales, seeds and grids, for any request."""

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagelet_engine.tuning import strategies
from sagelet_engine.tuning.strategies import StrategyUnavailable, strategy
from sagelet_engine.tuning.strategies import grid as grids
from sagelet_engine.tuning.strategies.space import Categorical, Continuous, InvalidRange, Scaling, Space, space_of
from sagelet_engine.tuning.strategies.strategy import PastTrial, Settings

SETTINGS = Settings(maximize=False, config={}, max_trials=None)
POSITIONS = st.floats(0, 1)


@st.composite
def integers(draw: st.DrawFn) -> dict[str, Any]:
    scaling = draw(st.sampled_from([None, "Auto", "Linear", "Logarithmic"]))
    # Beyond 2**53 a float no longer tells two integers apart. The longest text that the service model takes has 256.
    most = draw(st.sampled_from([10**6, 2**62, 10**255]))
    low = draw(st.integers(1 if scaling == "Logarithmic" else -most, most))
    high = draw(st.one_of(st.integers(low, 2 * most), st.integers(low, low + 3)))
    return {"MinValue": str(low), "MaxValue": str(high), **({"ScalingType": scaling} if scaling else {})}


@st.composite
def continuous(draw: st.DrawFn) -> dict[str, Any]:
    scaling = draw(st.sampled_from([None, *(one.value for one in Scaling)]))
    least, most = {"Logarithmic": (1e-9, 1e9), "ReverseLogarithmic": (0.0, 0.999999)}.get(scaling or "", (-1e9, 1e9))
    low, high = sorted((draw(st.floats(least, most)), draw(st.floats(least, most))))
    return {"MinValue": repr(low), "MaxValue": repr(high), **({"ScalingType": scaling} if scaling else {})}


CATEGORICAL = st.fixed_dictionaries({"Values": st.lists(st.text(max_size=5), min_size=1, max_size=5)})


@st.composite
def ranges(draw: st.DrawFn) -> dict[str, Any]:
    def named(kind: st.SearchStrategy[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
        return [{"Name": f"{prefix}{n}", **one} for n, one in enumerate(draw(st.lists(kind, max_size=3)))]

    return {
        "IntegerParameterRanges": named(integers(), "i"),
        "ContinuousParameterRanges": named(continuous(), "c"),
        "CategoricalParameterRanges": named(CATEGORICAL, "k"),
    }


def past(values: dict[str, str]) -> PastTrial:
    return PastTrial(values, ended=True, objective=1.0)


def check(values: dict[str, str], request: dict[str, Any]) -> None:
    """Every value is in its range, and there is one for each parameter."""
    names = []
    for one in request["IntegerParameterRanges"]:
        assert int(one["MinValue"]) <= int(values[one["Name"]]) <= int(one["MaxValue"])
        names.append(one["Name"])
    for one in request["ContinuousParameterRanges"]:
        assert float(one["MinValue"]) <= float(values[one["Name"]]) <= float(one["MaxValue"])
        names.append(one["Name"])
    for one in request["CategoricalParameterRanges"]:
        assert values[one["Name"]] in one["Values"]
        names.append(one["Name"])
    assert list(values) == names


@given(ranges(), st.integers(0, 2**31), st.integers(1, 8), st.integers(0, 8))
def test_random_values_are_in_their_ranges_and_follow_from_seed_and_number(
    request_ranges: dict[str, Any], seed: int, count: int, taken: int
) -> None:
    space, search = space_of(request_ranges), strategy("Random")
    every = search.propose(space, SETTINGS, seed, [], taken + count)
    for values in every:
        check(values, request_ranges)
    # However many are proposed at a time, and whatever became of the earlier ones.
    lost = [PastTrial(values, ended=False, objective=None) for values in every[:taken]]
    assert search.propose(space, SETTINGS, seed, lost, count) == every[taken:]


@given(st.lists(CATEGORICAL, max_size=4), st.integers(1, 50), st.integers(1, 700))
def test_a_grid_has_each_point_once_and_ends(kinds: list[dict[str, Any]], step: int, most: int) -> None:
    space = space_of({"CategoricalParameterRanges": [{"Name": f"k{n}", **one} for n, one in enumerate(kinds)]})
    seen: list[dict[str, str]] = []
    while len(seen) < most:
        found = strategy("Grid").propose(space, SETTINGS, 0, [past(one) for one in seen], step)
        seen += found
        if len(found) < step:
            break
    points = {tuple(one.items()) for one in seen}
    assert len(points) == len(seen)
    assert len(seen) == math.prod(len(set(one["Values"])) for one in kinds) or len(seen) >= most
    assert grids.size(space) == math.prod(len(set(one["Values"])) for one in kinds)


@given(st.one_of(integers(), continuous()), POSITIONS)
def test_a_value_has_a_position_and_the_position_has_the_value(one: dict[str, Any], at: float) -> None:
    kind = "Continuous" if "." in one["MinValue"] or "e" in one["MinValue"] else "Integer"
    (parameter,) = space_of({f"{kind}ParameterRanges": [{"Name": "p", **one}]}).parameters
    value = parameter.value(at)
    place = parameter.position(value)
    assert -1e-9 <= place <= 1 + 1e-9
    low, high = float(one["MinValue"]), float(one["MaxValue"])
    assert float(parameter.value(min(1.0, max(0.0, place)))) == pytest.approx(
        float(value), rel=1e-6, abs=max(1e-9, 1e-6 * (high - low))
    )


@given(continuous(), POSITIONS, POSITIONS)
def test_a_greater_position_never_has_a_lesser_value(one: dict[str, Any], first: float, second: float) -> None:
    (parameter,) = space_of({"ContinuousParameterRanges": [{"Name": "p", **one}]}).parameters
    low, high = sorted((first, second))
    slack = 1e-9 * max(1.0, abs(float(one["MaxValue"])), abs(float(one["MinValue"])))
    assert float(parameter.value(low)) <= float(parameter.value(high)) + slack


@pytest.mark.parametrize(
    ("low", "high", "scaling", "expected"),
    [
        ("1e-5", "1e-1", "Auto", Scaling.LOGARITHMIC),
        ("0.1", "1", "Auto", Scaling.LINEAR),
        ("0", "1000", "Auto", Scaling.LINEAR),
        ("1", "100", "Auto", Scaling.LOGARITHMIC),
        ("1", "100", "Linear", Scaling.LINEAR),
        ("0.5", "0.999", "ReverseLogarithmic", Scaling.REVERSE_LOGARITHMIC),
    ],
)
def test_scales(low: str, high: str, scaling: str, expected: Scaling) -> None:
    given_range = {"Name": "p", "MinValue": low, "MaxValue": high, "ScalingType": scaling}
    (parameter,) = space_of({"ContinuousParameterRanges": [given_range]}).parameters
    assert isinstance(parameter, Continuous)
    assert parameter.scaling is expected


def test_the_middle_of_each_scale() -> None:
    def middle(low: float, high: float, scaling: Scaling) -> float:
        return float(Continuous("p", low, high, scaling).value(0.5))

    assert middle(0, 10, Scaling.LINEAR) == 5
    assert middle(0.001, 0.1, Scaling.LOGARITHMIC) == pytest.approx(0.01)
    # 1 - x goes from 0.1 to 0.001 on a logarithmic scale.
    assert middle(0.9, 0.999, Scaling.REVERSE_LOGARITHMIC) == pytest.approx(0.99)
    assert Categorical("p", ("a", "b", "c")).value(0.5) == "b"


def test_integers_have_equal_shares_of_a_linear_scale() -> None:
    (parameter,) = space_of({"IntegerParameterRanges": [{"Name": "p", "MinValue": "1", "MaxValue": "4"}]}).parameters
    drawn = [parameter.value((n + 0.5) / 1000) for n in range(1000)]
    assert {value: drawn.count(value) for value in "1234"} == dict.fromkeys("1234", 250)


@pytest.mark.parametrize("scaling", ["Auto", "Linear", "Logarithmic"])
@pytest.mark.parametrize("low", [1, 2**53 + 1, 2**60, 10**255])
def test_each_of_a_few_integers_is_found_however_great_they_are(low: int, scaling: str) -> None:
    for count in (1, 3):
        (parameter,) = space_of(one_range("Integer", str(low), str(low + count - 1), scaling)).parameters
        drawn = [parameter.value(n / 20) for n in range(21)]
        assert set(drawn) == {str(low + n) for n in range(count)}
        assert all(parameter.value(parameter.position(value)) == value for value in drawn)


def one_range(kind: str, low: str, high: str, scaling: str = "Auto") -> dict[str, Any]:
    return {f"{kind}ParameterRanges": [{"Name": "p", "MinValue": low, "MaxValue": high, "ScalingType": scaling}]}


@pytest.mark.parametrize(
    ("request_ranges", "text"),
    [
        (one_range("Integer", "1.5", "3"), "MinValue '1.5' of the integer parameter p is not an integer"),
        (one_range("Continuous", "low", "3"), "MinValue 'low' of the continuous parameter p is not a number"),
        (one_range("Continuous", "0", "inf"), "MaxValue 'inf' of the continuous parameter p is not a number"),
        (one_range("Integer", "1_000", "3"), "MinValue '1_000' of the integer parameter p is not an integer"),
        (one_range("Integer", "1", "\u0665"), "of the integer parameter p is not an integer"),
        (one_range("Continuous", "1_0.0", "30"), "MinValue '1_0.0' of the continuous parameter p is not a number"),
        (one_range("Continuous", "1", "1e400"), "MaxValue '1e400' of the continuous parameter p is not a number"),
        (one_range("Continuous", "-1e308", "1e308"), "The range of p is too wide"),
        (one_range("Integer", "3", "1"), "MinValue 3 of p is greater than its MaxValue 1"),
        (one_range("Continuous", "0", "1", "Logarithmic"), "needs values greater than 0"),
        (one_range("Continuous", "0", "1", "ReverseLogarithmic"), "needs 0 <= values < 1.0"),
        (one_range("Integer", "0", "0", "ReverseLogarithmic"), "for continuous parameters only"),
        (
            {**one_range("Integer", "0", "1"), **one_range("Continuous", "0", "1")},
            "The hyperparameter p has several ranges",
        ),
    ],
)
def test_a_range_that_cannot_be_searched_is_refused(request_ranges: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRange) as caught:
        space_of(request_ranges)
    assert text in str(caught.value)


def test_a_grid_of_ranges_is_refused() -> None:
    with pytest.raises(InvalidRange, match="categorical parameters only; p has a range"):
        grids.size(space_of(one_range("Integer", "1", "2")))


def test_an_empty_grid_is_one_trial_and_an_empty_space_any_number() -> None:
    assert strategy("Grid").propose(Space(()), SETTINGS, 0, [], 3) == [{}]
    assert strategy("Random").propose(Space(()), SETTINGS, 0, [], 2) == [{}, {}]


def trials_of(values: list[dict[str, str]], objectives: list[float | str | None]) -> list[PastTrial]:
    """Pairs values with objectives. None: the trial failed. A text: it runs."""
    return [
        PastTrial(one, ended=not isinstance(found, str), objective=None if isinstance(found, str) else found)
        for one, found in zip(values, objectives, strict=False)
    ]


OBJECTIVES = st.one_of(st.none(), st.just("runs"), st.floats(-1e6, 1e6))


@settings(max_examples=60)
@given(ranges(), st.integers(0, 2**31), st.booleans(), st.lists(OBJECTIVES, min_size=1, max_size=14))
def test_bayesian_values_are_in_their_ranges_and_follow_from_seed_and_trials(
    request_ranges: dict[str, Any], seed: int, maximize: bool, objectives: list[float | str | None]
) -> None:
    space, search = space_of(request_ranges), strategy("Bayesian")
    how = Settings(maximize=maximize, config={}, max_trials=None)
    values: list[dict[str, str]] = []
    for number in range(len(objectives)):
        (found,) = search.propose(space, how, seed, trials_of(values, objectives[:number]), 1)
        check(found, request_ranges)
        values.append(found)
    known = trials_of(values, objectives)
    both = search.propose(space, how, seed, known, 2)
    assert both == search.propose(space, how, seed, list(known), 2)
    # One at a time is as good as two at once.
    first = search.propose(space, how, seed, known, 1)
    after = [*known, PastTrial(first[0], ended=False, objective=None)]
    assert both == [*first, *search.propose(space, how, seed, after, 1)]


@given(ranges(), st.integers(0, 2**31), st.integers(1, 8))
def test_hyperband_draws_as_random_search_does(request_ranges: dict[str, Any], seed: int, count: int) -> None:
    space = space_of(request_ranges)
    drawn = [strategy(name).propose(space, SETTINGS, seed, [], count) for name in ("Hyperband", "Random")]
    assert drawn[0] == drawn[1]


def learned(request_ranges: dict[str, Any], loss: Callable[[dict[str, str]], float], count: int) -> list[float]:
    """Returns the losses of a Bayesian search, in order."""
    space, trials = space_of(request_ranges), list[PastTrial]()
    for _ in range(count):
        (values,) = strategy("Bayesian").propose(space, SETTINGS, 7, trials, 1)
        trials.append(PastTrial(values, ended=True, objective=loss(values)))
    return [one.objective for one in trials if one.objective is not None]


@pytest.mark.parametrize(
    ("given_range", "best"),
    [
        ({"MinValue": "0", "MaxValue": "10", "ScalingType": "Linear"}, 7.0),
        ({"MinValue": "1e-6", "MaxValue": "1", "ScalingType": "Logarithmic"}, 1e-4),
        ({"MinValue": "1e-6", "MaxValue": "1", "ScalingType": "Auto"}, 1e-4),
        ({"MinValue": "0.5", "MaxValue": "0.99999", "ScalingType": "ReverseLogarithmic"}, 0.999),
    ],
)
def test_bayesian_search_closes_in_on_the_best_on_every_scale(given_range: dict[str, str], best: float) -> None:
    request_ranges = {"ContinuousParameterRanges": [{"Name": "p", **given_range}]}
    (parameter,) = space_of(request_ranges).parameters

    def loss(values: dict[str, str]) -> float:
        return abs(parameter.position(values["p"]) - parameter.position(repr(best)))

    found = learned(request_ranges, loss, 36)
    assert sum(found[-12:]) < sum(found[:12]) / 2
    assert min(found) < 0.05


def test_bayesian_search_learns_which_category_and_which_number_are_good() -> None:
    request_ranges = {
        "CategoricalParameterRanges": [{"Name": "k", "Values": ["a", "b", "c", "d"]}],
        "IntegerParameterRanges": [{"Name": "n", "MinValue": "1", "MaxValue": "64"}],
    }
    found = learned(request_ranges, lambda one: abs(int(one["n"]) - 40) / 64 + (one["k"] != "c"), 40)
    assert sum(loss >= 1 for loss in found[-12:]) <= 6
    assert min(found) < 0.05


@pytest.mark.parametrize(("most", "random"), [(6, 2), (7, 3), (30, 6), (None, 6)])
def test_the_first_third_of_a_bayesian_search_is_random(most: int | None, random: int) -> None:
    """Six at most. Otherwise a tuning job with six training jobs would learn nothing."""
    space = space_of(one_range("Continuous", "0", "1"))
    asked = Settings(maximize=False, config={}, max_trials=most)
    trials: list[PastTrial] = []
    while len(trials) <= random:
        found = [strategy(name).propose(space, asked, 3, trials, 1) for name in ("Bayesian", "Random")]
        assert (found[0] == found[1]) is (len(trials) < random)
        trials.append(PastTrial(found[0][0], ended=True, objective=len(trials)))


def test_bayesian_search_has_no_point_twice_while_there_are_others() -> None:
    kinds = [{"Name": "k", "Values": list("abcdef")}, {"Name": "l", "Values": ["1", "2"]}]
    request_ranges = {"CategoricalParameterRanges": kinds}
    space, trials = space_of(request_ranges), list[PastTrial]()
    for _ in range(10):
        (values,) = strategy("Bayesian").propose(space, SETTINGS, 3, trials, 1)
        trials.append(PastTrial(values, ended=True, objective=float(values["k"] != "a")))
    guided = [tuple(one.values.items()) for one in trials[6:]]
    assert len(set(guided)) == len(guided)


def test_trials_of_other_hyperparameters_teach_nothing() -> None:
    space = space_of(one_range("Continuous", "0", "1"))
    strange = [PastTrial({"q": "1"}, True, 0.0), PastTrial({"p": "7"}, True, 0.0), PastTrial({"p": "x"}, True, 0.0)]
    trials = strange * 3
    (found,) = strategy("Bayesian").propose(space, SETTINGS, 0, trials, 1)
    assert 0 <= float(found["p"]) <= 1


def test_without_optuna_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_STRATEGIES", {})
    monkeypatch.delitem(sys.modules, "sagelet_engine.tuning.strategies.bayesian", raising=False)
    # As the import system marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(StrategyUnavailable, match=r"package optuna.*extra `tuning`.*pip install 'optuna>=5,<6'"):
        strategy("Bayesian")
