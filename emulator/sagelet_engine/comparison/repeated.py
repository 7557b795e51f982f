"""A verdict on two jobs that were trained several times in turn: medians, intervals, and loss curves. Pure.

Each figure is compared pair by pair, because the two jobs of a pair ran one right after the other: a load of the
machine slows both. The interval is Student's, at 95 %, of the logarithms of the pairs' ratios.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.comparison import payback, sentences
from sagelet_engine.comparison.losses import NOISY as TOO_NOISY
from sagelet_engine.comparison.losses import LossAgreement, agreement, conclusion, figures
from sagelet_engine.comparison.result import BreakEven, Comparison, Row, Speed
from sagelet_engine.comparison.student import quantile

#: Fewer pairs give no meaningful interval. More pairs take too long.
FEWEST_PAIRS = 3
MOST_PAIRS = 20
#: The figures of the verdict, the most significant first.
KEYS = ("throughput", "runtime", "training_seconds", "billable_seconds", "usd", "script_throughput")
#: AWS gives these figures in whole seconds, or computes them from whole seconds. So half a second on either side is
#: unknown.
_WHOLE_SECONDS = {
    "training_seconds": "training_seconds",
    "billable_seconds": "billable_seconds",
    "usd": "billable_seconds",
}
#: A smaller change counts as none, whatever the interval.
EQUAL = 0.01
BETTER, WORSE, SAME, NOISY = "better", "worse", "the same", TOO_NOISY


@dataclass(frozen=True)
class Figure:
    """One figure over all pairs."""

    #: The same as in Row.
    key: str
    title: str
    unit: str
    #: Medians over the runs of each job.
    first: float
    second: float
    #: Median over the pairs of second / first, and the 95 % interval of the mean.
    ratio: float
    low: float
    high: float
    #: better, worse, the same (the interval is within 1 % of 1), or too noisy to say.
    verdict: str


@dataclass(frozen=True)
class Verdict:
    """The result of several pairs."""

    #: Labels of the two jobs: native and compiled.
    labels: tuple[str, str]
    pairs: int
    figures: tuple[Figure, ...]
    #: None if a run printed no losses, or the runs printed them at different places.
    losses: LossAgreement | None
    #: By the medians, and by the interval of the throughput. None if a run does not have a figure of it.
    break_even: BreakEven | None = None
    #: Load of the machine before each run (tasks that need a CPU, over the last minute), in order. Empty if unknown.
    load: tuple[float, ...] = ()
    #: Median frequency of the CPUs in MHz before each run, in order. Empty if unknown.
    frequency: tuple[float, ...] = ()

    def to_json(self) -> JsonObject:
        return asdict(self)


def judge(pairs: Sequence[Comparison], load: Sequence[float] = (), frequency: Sequence[float] = ()) -> Verdict:
    """Judges comparisons of one run of each job. Raises ValueError for fewer pairs than FEWEST_PAIRS, or too many."""
    if not FEWEST_PAIRS <= len(pairs) <= MOST_PAIRS:
        raise ValueError(f"A verdict needs {FEWEST_PAIRS} to {MOST_PAIRS} pairs, not {len(pairs)}")
    first, second = pairs[0].jobs
    curves = [[pair.jobs[side].losses for pair in pairs] for side in (0, 1)]
    losses = agreement(second.name, second.label, *curves)
    labels = (first.label, second.label)
    found = tuple(_figures(pairs))
    even = _break_even(pairs, found)
    return Verdict(labels, len(pairs), found, losses, even, tuple(load), tuple(frequency))


def _break_even(pairs: Sequence[Comparison], found: Sequence[Figure]) -> BreakEven | None:
    """Returns when compiling has paid for itself, if the first job is native and the second one is compiled."""
    first, second = pairs[0].jobs
    speed = next((one for one in found if one.key == "throughput"), None)
    cost, rows, ran = (_medians(pairs, key) for key in ("compile_seconds", "rows", "steps"))
    if speed is None or cost is None or not rows or first.compiled or not second.compiled:
        return None
    told = speed.verdict in (BETTER, WORSE)
    ratio = Speed(second.name, second.label, speed.ratio, speed.low, speed.high, told)
    return payback.break_even(ratio, cost, rows / speed.first, int(ran or 0))


def _medians(pairs: Sequence[Comparison], key: str) -> float | None:
    """Returns the median of the second job's figure. None if a run does not have it."""
    values = [row.values[1] for pair in pairs for row in pair.rows if row.key == key]
    known = [value for value in values if value is not None]
    return statistics.median(known) if len(known) == len(pairs) else None


def _figures(pairs: Sequence[Comparison]) -> Iterator[Figure]:
    """Yields the figures that every run of every pair has."""
    for key in KEYS:
        values = _values(pairs, key)
        if values:
            unknown = _half_a_second(_values(pairs, _WHOLE_SECONDS[key])) if key in _WHOLE_SECONDS else 0.0
            yield _figure(pairs[0].row(key), values, unknown)


def _values(pairs: Sequence[Comparison], key: str) -> list[tuple[float, float]]:
    """Returns a figure of both runs of each pair. Empty if any run does not have it."""
    rows = [row for pair in pairs for row in pair.rows if row.key == key]
    known = [(first, second) for row in rows for first, second in [row.values[:2]] if first and second]
    return known if len(known) == len(pairs) else []


def _half_a_second(values: Sequence[tuple[float, float]]) -> float:
    """Returns the share that half a second is of each job's median time, summed over the two jobs."""
    return sum(0.5 / statistics.median(one[side] for one in values) for side in (0, 1))


def _figure(row: Row, values: Sequence[tuple[float, float]], unknown: float) -> Figure:
    """Returns one figure of all pairs. `unknown`: the share of the ratio that the figure's resolution hides."""
    first, second = (statistics.median(one[side] for one in values) for side in (0, 1))
    logarithms = [math.log(after / before) for before, after in values]
    mean = statistics.fmean(logarithms)
    error = quantile(len(values) - 1) * statistics.stdev(logarithms) / math.sqrt(len(values)) + unknown
    ratio = math.exp(statistics.median(logarithms))
    low, high = math.exp(mean - error), math.exp(mean + error)
    verdict = _verdict(low, high, higher_is_better=row.better == "higher")
    return Figure(
        key=row.key,
        title=row.title,
        unit=row.unit,
        first=first,
        second=second,
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
    )


def _verdict(low: float, high: float, *, higher_is_better: bool) -> str:
    if low >= 1 - EQUAL and high <= 1 + EQUAL:
        return SAME
    if low <= 1 <= high:
        return NOISY
    return BETTER if (low > 1) is higher_is_better else WORSE


def in_sentences(verdict: Verdict) -> Iterator[str]:
    """Yields the result in words: steady speed, cost of compiling, when it has paid, losses."""
    first, second = verdict.labels
    if speed := next((one for one in verdict.figures if one.key == "throughput"), None):
        between = f"{speed.low:.2f} to {speed.high:.2f}, {speed.verdict}"
        yield f"{second} trained at {speed.ratio:.2f} times the steady speed of {first} ({between})."
    if even := verdict.break_even:
        took = f"{second} took {even.compile_seconds:.1f} s to compile its programs, or to read them from the cache"
        yield f"{took}. {sentences.in_words(even)}."
    if losses := verdict.losses:
        text = conclusion(losses)
        yield f"{text[0].upper()}{text[1:]}. {figures(losses, first)}."
    yield "Seconds, throughput and ratios are this machine's. They do not forecast those of a GPU of AWS."
    if verdict.load:
        load = f"{min(verdict.load):.1f} to {max(verdict.load):.1f}"
        yield f"Load of the machine before the runs: {load}{_frequencies(verdict.frequency)}."


def _frequencies(mhz: Sequence[float]) -> str:
    return f"; CPU frequency: {min(mhz):.0f} to {max(mhz):.0f} MHz" if mhz else ""
