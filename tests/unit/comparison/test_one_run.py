"""What one run of each of two jobs says about their speed: on made step times."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sagelet_engine.comparison.comparing import compare
from sagelet_engine.comparison.decoding import build
from sagelet_engine.comparison.facts import JobFacts
from sagelet_engine.comparison.result import Comparison
from sagelet_engine.telemetry.compiler.one_run import trust
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import StepSeconds
from sagelet_runtime.reporting.device_clock import ScriptClock
from sagelet_runtime.reporting.intervals import Intervals, StepEnd
from support.comparison_facts import facts, report, trainer

#: Seconds of steps after the first, made to look like those of a small model on two idle CPUs.
STEPS = (0.371, 0.366, 0.369, 0.384, 0.365, 0.372, 0.391, 0.368, 0.370, 0.366, 0.373, 0.402, 0.369, 0.367, 0.375, 0.371,
         0.368, 0.381, 0.370, 0.366, 0.372, 0.369, 0.388, 0.371, 0.367, 0.370, 0.379, 0.368, 0.371)  # fmt: skip
FEW = "reported fewer than 8 steps that compiled nothing, or waited too seldom for the device to time them"
#: How much longer each step takes because of what else the machine does: share of the run so far -> factor.
Load = Callable[[float], float]
IDLE: Load = lambda share: 1.0  # noqa: E731


def second_program(begin: float, end: float) -> Load:
    """Another program uses every CPU for a part of the run."""
    return lambda share: 2.0 if begin <= share < end else 1.0


def drift(by: float) -> Load:
    """The clock of the CPUs falls, as that of a machine that gets warm: nothing waits for a CPU."""
    return lambda share: 1 + by * share


def run(name: str, speed: float, load: Load, *, waits: bool, compiled: bool = False) -> JobFacts:
    """A run of a job whose steps take `speed` times as long. `waits`: the kernel counts the load as waiting."""
    seconds = [step * speed * load(number / len(STEPS)) for number, step in enumerate(STEPS)]
    own = sum(step * speed for step in STEPS)
    figures: dict[str, Any] = {
        "step_seconds": timed(seconds),
        "cpu_seconds": 2 * own,
        "cpu_wait_seconds": 2 * (sum(seconds) - own) if waits else 0.0,
        "compile_seconds": 0.0,
    }
    whole = sum(seconds)
    return facts(
        name, compiled=compiled, seconds=round(whole) + 8, log=trainer(whole, 240), report=report(compiled, **figures)
    )


def timed(seconds: Sequence[float]) -> StepSeconds:
    """What a worker reports of steps at whose ends the device was done."""
    intervals = Intervals(ScriptClock())
    ends = itertools.accumulate(seconds, initial=6.0)
    for step, end in enumerate(ends):
        intervals.step_ended(StepEnd(end, step))
    return build(StepSeconds, intervals.document()["step_seconds"])


def said(comparison: Comparison) -> set[str]:
    """Returns `faster` and `slower` for what the comparison says of its second job's speed."""
    row = comparison.row("throughput")
    change = row.changes[1] or 0.0
    verdicts = {"faster" if change > 0 else "slower"} if row.told[1] else set()
    texts = " ".join(one.text for one in comparison.sentences if one.kind in ("throughput", "runtime", "billable"))
    # "Compiler savings" has neither word.
    assert {word for word in ("faster", "slower") if word in texts} <= verdicts
    return verdicts


LOADS: list[tuple[Load, bool]] = [
    (IDLE, True),
    (second_program(0.0, 1.0), True),
    (second_program(0.0, 0.5), True),
    (second_program(0.6, 1.0), True),
    (drift(0.35), False),
    (drift(-0.2), False),
    (second_program(0.3, 0.7), False),
]


@pytest.mark.parametrize("speed", [1.0, 0.9, 1.2, 0.75, 1.4])
def test_no_two_single_runs_contradict_each_other(speed: float) -> None:
    """One command, run again and again with whatever else the machine does, never says both."""
    found: set[str] = set()
    for (one, seen), (other, also) in itertools.product(LOADS, repeat=2):
        pair = [run("plain", 1.0, one, waits=seen), run("fast", speed, other, waits=also, compiled=True)]
        found |= said(compare(pair))
    assert found == set()


def test_three_runs_of_chance_give_one_answer() -> None:
    for seed, speed in itertools.product(range(30), (1.0, 0.7, 0.45, 2.3)):
        chance = random.Random(seed)
        found: set[str] = set()
        for _ in range(3):
            (one, seen), (other, also) = chance.choices(LOADS, k=2)
            pair = [
                run("plain", chance.uniform(0.95, 1.05), one, waits=seen),
                run("fast", speed * chance.uniform(0.95, 1.05), other, waits=also, compiled=True),
            ]
            found |= said(compare(pair))
        assert not {"faster", "slower"} <= found
        assert speed >= 1 or "slower" not in found
        assert speed <= 1 or "faster" not in found


def test_the_flip_of_a_busy_machine_is_no_verdict() -> None:
    """One run said 33 % faster and the next 34 % slower: a second program slowed the one, then the other."""
    busy = second_program(0.0, 0.7)
    first = compare([run("plain", 1.0, busy, waits=True), run("fast", 0.95, IDLE, waits=True, compiled=True)])
    second = compare([run("plain", 1.0, IDLE, waits=True), run("fast", 0.95, busy, waits=True, compiled=True)])
    assert first.row("throughput").changes[1] > 33  # type: ignore[operator]
    assert second.row("throughput").changes[1] < -33  # type: ignore[operator]
    assert said(first) == said(second) == set()
    (sentence,) = (one.text for one in first.sentences if one.kind == "speed")
    assert "some steps of plain took 2.0 times as long as others" in sentence
    assert "the threads of plain waited for a CPU for 42% of the time that they needed one" in sentence
    assert "--repeat 3" in sentence


def test_a_difference_far_beyond_is_told_on_an_idle_machine() -> None:
    pair = [run("plain", 1.0, IDLE, waits=True), run("fast", 0.5, IDLE, waits=True, compiled=True)]
    assert said(compare(pair)) == {"faster"}
    assert said(compare(pair[::-1])) == {"slower"}


def test_what_a_kernel_does_not_count_may_have_been_there() -> None:
    quiet = report(False)
    unknown = report(True, cpu_seconds=0.0)
    assert trust([("a", quiet), ("b", quiet)]).factor == pytest.approx(1.5)
    found = trust([("a", quiet), ("b", unknown)])
    assert found.factor == pytest.approx(3.0)
    assert found.reason == "whether other programs used the CPUs is not known"


def test_a_run_of_few_steps_says_nothing() -> None:
    few = report(True, step_seconds=timed(STEPS[:5]))
    found = trust([("a", report(False)), ("b", few)])
    assert (found.factor, found.reason) == (None, f"b {FEW}")
    assert not found.tells_apart(1.0, 100.0)
    assert trust([("a", CompilerReport()), ("b", few)]).factor is None


def test_whole_seconds_are_half_a_second_uncertain() -> None:
    found = trust([("a", report(False)), ("b", report(True))])
    assert not found.tells_apart(1.0, 2.0, 0.5)
    assert found.tells_apart(10.0, 20.0, 0.5)
