"""The verdict on repeated pairs, on comparisons made by hand."""

import itertools
import random
from collections.abc import Sequence

import pytest

from sagelet_engine.comparison.comparing import compare
from sagelet_engine.comparison.repeated import BETTER, NOISY, SAME, WORSE, Verdict, in_sentences, judge
from sagelet_engine.comparison.result import Comparison
from support.comparison_facts import compiled, native, trainer

FLAT = (4.0, 3.0, 2.0)


def pair(
    before: float, after: float, losses: Sequence[float] = FLAT, others: Sequence[float] = FLAT, seconds: int = 120
) -> Comparison:
    """A native run whose loop took `before` seconds, and a compiled one whose took `after`."""
    one = native(log=trainer(before, losses=losses), seconds=seconds)
    return compare([one, compiled(log=trainer(after, losses=others), seconds=seconds)])


def verdicts(verdict: Verdict) -> dict[str, str]:
    return {figure.key: figure.verdict for figure in verdict.figures}


def test_a_difference_in_each_pair_is_told_with_its_interval() -> None:
    verdict = judge([pair(100, 80), pair(110, 87), pair(105, 84)])
    assert verdicts(verdict)["runtime"] == BETTER
    assert verdicts(verdict)["throughput"] == BETTER
    runtime = next(figure for figure in verdict.figures if figure.key == "runtime")
    assert (runtime.first, runtime.second) == (105, 84)
    assert runtime.ratio == pytest.approx(0.8)
    assert runtime.low < 0.8 < runtime.high < 1
    assert verdicts(judge([pair(80, 100), pair(87, 110), pair(84, 105)]))["throughput"] == WORSE


def test_several_runs_say_when_compiling_has_paid() -> None:
    """1,000 rows in 100, 110 and 105 s; in 70, 77 and 74 s beside 10 s of compiling. Steps have 10 rows."""
    verdict = judge([pair(100, 80), pair(110, 87), pair(105, 84)])
    even = verdict.break_even
    assert even is not None
    # A step takes 1.05 s natively and 1.05 / 1.4286 s compiled.
    assert (even.steps, even.told, even.compile_seconds) == (32, True, 10.0)
    assert even.earliest is not None
    assert even.latest is not None
    assert even.earliest <= 32 <= even.latest
    said = list(in_sentences(verdict))
    assert said[0].startswith("XLA trained at 1.43 times the steady speed of native (1.41 to 1.44")
    assert said[0].endswith(", better).")
    took, _, paid = said[1].partition(". ")
    assert took == "XLA took 10.0 s to compile its programs, or to read them from the cache"
    assert paid.startswith("That paid at step 32, 33")
    noisy = judge([pair(100, 110), pair(110, 87), pair(105, 125)])
    assert "too noisy to say" in list(in_sentences(noisy))[1]


def test_pairs_that_disagree_are_too_noisy() -> None:
    assert verdicts(judge([pair(100, 80), pair(80, 100), pair(100, 90)]))["runtime"] == NOISY


def test_equal_runs_are_the_same() -> None:
    assert verdicts(judge([pair(100, 100.1), pair(100, 99.9), pair(100, 100.2)]))["runtime"] == SAME


def test_a_slow_hour_does_not_hide_a_difference() -> None:
    """The machine is twice as slow for a while: both jobs of a pair are."""
    assert verdicts(judge([pair(100, 80), pair(200, 161), pair(150, 119)]))["runtime"] == BETTER


def test_whole_seconds_are_no_better_than_half_a_second() -> None:
    def short(before: int, after: int) -> Comparison:
        return compare([native(seconds=before, log=trainer(1)), compiled(seconds=after, log=trainer(1))])

    found = verdicts(judge([short(12, 13), short(12, 13), short(12, 13)]))
    assert (found["billable_seconds"], found["usd"]) == (NOISY, NOISY)
    found = verdicts(judge([short(12, 20), short(12, 20), short(12, 20)]))
    assert (found["billable_seconds"], found["usd"]) == (WORSE, WORSE)


def test_one_answer_from_three_tries() -> None:
    """The same jobs, measured three times over with 5 % of noise: no two verdicts contradict each other."""
    for seed, gain in itertools.product(range(40), (1.0, 0.97, 0.8)):
        chance = random.Random(seed)
        found = {
            verdicts(judge([_noisy(chance, gain) for _ in range(5)]))["runtime"] for _ in range(3)
        }  # fmt: skip
        assert not {BETTER, WORSE} <= found
        assert gain > 0.8 or found == {BETTER}


def _noisy(chance: random.Random, gain: float) -> Comparison:
    return pair(100 * chance.gauss(1, 0.05), 100 * gain * chance.gauss(1, 0.05))


def test_losses_agree_within_what_native_runs_differ() -> None:
    noisy = [pair(100, 80, (4.0, 3.0 + by, 2.0), (4.0, 3.05, 2.0)) for by in (-0.1, 0.0, 0.1)]
    losses = judge(noisy).losses
    assert losses is not None
    assert (losses.verdict, losses.basis, losses.runs, losses.points, losses.fall) == ("similar", "runs", 3, 3, 2.0)
    # Student's 4.303 for three runs; variance 0.01 at one of three points; three runs of each.
    assert losses.tolerance == pytest.approx(4.303 * (0.01 / 3) ** 0.5 * (2 / 3) ** 0.5, rel=1e-3)
    assert losses.distance == pytest.approx(0.05 / 3**0.5)


def test_losses_that_native_runs_never_have_do_not_agree() -> None:
    verdict = judge([pair(100, 80, FLAT, (4.0, 3.15, 2.0))] * 3, [0.5, 1.0], [2000.0])
    assert verdict.losses is not None
    assert verdict.losses.verdict == "not similar"
    said = " ".join(in_sentences(verdict))
    assert "The loss curves do NOT agree: they differ by 0.0866 while the loss falls by 2." in said
    assert "0.5 to 1.0; CPU frequency: 2000 to 2000 MHz" in said


def test_losses_that_vary_as_much_as_they_fall_are_too_noisy() -> None:
    wild = [pair(100, 80, (4.0, 3.0 + by, 2.0), (4.0, 3.3, 2.0)) for by in (-0.8, 0.0, 0.8)]
    assert "Whether the loss curves agree is too noisy to say" in " ".join(in_sentences(judge(wild)))


def test_jobs_that_draw_by_chance_agree_nineteen_times_of_twenty() -> None:
    """Native and compiled runs are draws of one curve: of points apart, or of a whole curve that lies high or low."""
    chance = random.Random(4)
    for points_apart in (True, False):
        found = [judge([_drawn(chance, points_apart=points_apart) for _ in range(3)]).losses for _ in range(200)]
        assert sum(one is not None and one.verdict != "similar" for one in found) <= 20


def _drawn(chance: random.Random, *, points_apart: bool) -> Comparison:
    def losses() -> list[float]:
        shift = chance.gauss(0, 0.02)
        return [4 - number / 5 + (chance.gauss(0, 0.02) if points_apart else shift) for number in range(10)]

    return pair(100, 80, losses(), losses())


@pytest.mark.parametrize("losses", [(4.0, 3.01, 2.0), (4.0,)])
def test_a_difference_of_a_hundredth_of_the_fall_or_a_thousandth_of_the_loss_does_not_matter(
    losses: tuple[float, ...],
) -> None:
    one_point = [pair(100, 80, FLAT[: len(losses)], [loss + 0.001 for loss in losses])] * 3
    found = judge(one_point).losses
    assert found is not None
    assert found.verdict == "similar"


def test_a_loss_that_is_no_number_does_not_agree() -> None:
    losses = judge([pair(100, 80, FLAT, (4.0, float("nan"), 2.0))] * 3).losses
    assert losses is not None
    assert losses.verdict == "not similar"


def test_runs_without_losses_have_none() -> None:
    assert judge([pair(100, 80, (), ())] * 3).losses is None


@pytest.mark.parametrize("count", [0, 2, 21])
def test_too_few_and_too_many_pairs_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="3 to 20 pairs"):
        judge([pair(100, 80)] * count)
