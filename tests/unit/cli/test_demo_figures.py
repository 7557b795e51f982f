"""The four lines of the demo, from marks that three jobs could have printed."""

import math
import random

import pytest

from sagelet_api.cli.demo_figures import FASTER, NOISY, SAME, SLOWER, Mark, Run, figures, lines, mark_in

STEPS = 80
MARKED = (1, *range(5, STEPS + 1, 5))


def run(
    step: float, first: float, *, noise: float = 0.0, apart: float = 0.0, hits: int = 0, misses: int = 0, seed: int = 0
) -> Run:
    """Returns a job whose steps take `step` seconds each, and whose first two take `first` seconds more."""
    made = random.Random(seed)
    seconds, before, marks = 0.0, 0, []
    for now in MARKED:
        seconds += (now - before) * step * math.exp(made.gauss(0, noise)) + (first if now == 1 else 0.0)
        marks.append(Mark(now, STEPS, seconds, 5 - 2 * now / STEPS + apart))
        before = now
    return Run("job", tuple(marks), (0, 1) if hits or misses else (), hits, misses)


def said(native: Run, compiled: Run, again: Run) -> list[str]:
    return [*lines(figures(native, compiled, again), compiled, again)]


def test_all_is_well() -> None:
    losses, speed, price, warm = said(
        run(0.2, 0.1), run(0.1, 5.1, apart=0.001, misses=18), run(0.1, 3.1, apart=0.001, hits=18)
    )
    assert losses == "the loss curves agree: they differ by 0.001 while the loss falls by 1.97"
    assert speed == (
        "compiled steps have 2.00 times native's speed (2.00 to 2.00): a step takes 100 ms compiled, 200 ms natively"
    )
    assert price == "compiling cost 5.0 s, paid back after 50 steps; this job had 80"
    assert warm == (
        "the same compiled job once more compiled nothing: 18 of 18 programs from the cache; "
        "its first step took 3.2 s in place of 5.2 s"
    )


def test_a_price_that_this_job_did_not_win_back() -> None:
    price = said(run(0.2, 0.1), run(0.1, 10.1, misses=1), run(0.1, 1, hits=1))[2]
    assert price == "compiling cost 10.0 s, paid back after 100 steps; this job had only 80"


def test_a_compiler_that_never_pays() -> None:
    found = figures(run(0.1, 0), run(0.2, 5, misses=1), run(0.2, 3, hits=1))
    assert found.speed is not None
    assert (found.speed.verdict, found.price and found.price.even_after) == (SLOWER, None)
    _, speed, price, _ = said(run(0.1, 0), run(0.2, 5, misses=1), run(0.2, 3, hits=1))
    assert speed.startswith("compiled steps have 0.50 times native's speed (0.50 to 0.50)")
    assert price.endswith("no number of steps pays that back: never")


def test_equal_speed_never_pays_either() -> None:
    found = figures(run(0.1, 0), run(0.1, 5, misses=1), run(0.1005, 3, hits=1))
    assert found.speed is not None
    assert found.speed.verdict == SAME
    assert said(run(0.1, 0), run(0.1, 5, misses=1), run(0.1, 3, hits=1))[2].endswith("never")


def test_a_machine_that_changes_meanwhile_is_too_noisy_and_gives_no_verdict() -> None:
    """The second compiled job has the speed of the native one: something else slowed it, or the first two."""
    native, compiled, again = run(0.2, 0), run(0.12, 5, misses=1), run(0.2, 3, hits=1)
    found = figures(native, compiled, again)
    assert found.speed is not None
    assert found.speed.verdict == NOISY
    _, speed, price, _ = said(native, compiled, again)
    assert speed.startswith("whether compiled steps are faster is too noisy to say on this machine now: between 1.0")
    assert price.endswith("after how many steps that is paid back is too noisy to say, too")


def test_a_steady_drift_of_the_machine_cancels_and_widens_the_interval() -> None:
    """It gets slower by a tenth from job to job, in the order in which they run: compiled, native, again."""
    found = figures(run(0.15 * 1.1, 0), run(0.10, 5, misses=1), run(0.10 * 1.21, 3, hits=1)).speed
    assert found is not None
    assert found.ratio == pytest.approx(1.5, abs=0.001)
    assert (found.low, found.high) == (pytest.approx(1.5 / 1.1, rel=0.001), pytest.approx(1.5 * 1.1, rel=0.001))


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_has_the_truth_in_it(seed: int) -> None:
    runs = (run(0.15, 0, noise=0.05, seed=3 * seed), run(0.1, 5, noise=0.05, misses=1, seed=3 * seed + 1))
    found = figures(*runs, run(0.1, 3, noise=0.05, hits=1, seed=3 * seed + 2)).speed
    assert found is not None
    assert found.verdict == FASTER
    assert found.low < 1.5 * 1.02
    assert found.high > 1.5 / 1.02


def test_spans_that_compiled_count_in_no_job() -> None:
    """A recompilation at step 42 took 9 s: the span from 40 to 45 is left out, in all three jobs."""
    compiled = run(0.1, 5, misses=2)
    late = tuple(
        Mark(mark.step, mark.of, mark.seconds + (9 if mark.step > 42 else 0), mark.loss) for mark in compiled.marks
    )
    found = figures(run(0.2, 0), Run("job", late, (0, 1, 42), 0, 2), run(0.1, 3, hits=2)).speed
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(2.0), pytest.approx(2.0))


def test_losses_that_do_not_agree_are_said_so() -> None:
    losses = said(run(0.2, 0), run(0.1, 5, apart=0.5, misses=1), run(0.1, 3, apart=0.5, hits=1))[0]
    assert losses == "the loss curves do NOT agree: they differ by 0.5 while the loss falls by 1.97"


def test_a_warm_job_that_compiled_all_the_same() -> None:
    warm = said(run(0.2, 0), run(0.1, 5, misses=18), run(0.1, 5, hits=16, misses=2))[3]
    assert warm.startswith("the same compiled job once more compiled 2 of 18 programs again; ")
    assert "no programs" in said(run(0.2, 0), run(0.1, 5, misses=18), run(0.1, 5))[3]


def test_a_price_that_an_earlier_job_has_paid() -> None:
    price = said(run(0.2, 0.1), run(0.1, 3.1, hits=18), run(0.1, 3.1, hits=18))[2]
    assert "18 of its 18 programs were compiled by an earlier job" in price


def test_jobs_that_printed_nothing_are_unknown_not_an_error() -> None:
    silent = Run("job", ())
    losses, speed, price, _ = said(silent, silent, silent)
    assert all("unknown: the jobs printed too few losses" in line for line in (losses, speed, price))


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("clock: step 5 of 80, 1.250 s, loss 3.2", Mark(5, 80, 1.25, 3.2)),
        ("clock: step 5 of 80, 1.250 s, loss 3.2\x1b[2J", None),
        ("clock: step 81 of 80, 1.250 s, loss 3.2", None),
        ("clock: step 0 of 80, 1.250 s, loss 3.2", None),
        (f"clock: step {'9' * 5000} of 80, 1.250 s, loss 3.2", None),
        ("{'loss': 3.2}", None),
    ],
)
def test_marks_in_a_log(line: str, mark: Mark | None) -> None:
    assert mark_in(line) == mark


def test_the_example_prints_what_is_read_here() -> None:
    """`tests/acceptance/test_demo_command.py` reads what it really prints."""
    from support.clients import ROOT

    text = (ROOT / "examples" / "gpt2" / "scripts" / "train.py").read_text(encoding="utf-8")
    assert "clock: step {state.global_step} of {state.max_steps}, {seconds:.3f} s, loss {logs['loss']}" in text
