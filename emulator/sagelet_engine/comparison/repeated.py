"""A verdict on two jobs that were trained several times in turn: medians, intervals, and loss curves. Pure.

Each figure is compared pair by pair, because the two jobs of a pair ran one right after the other: a load of the
machine slows both. The interval is Student's, at 95 %, of the logarithms of the pairs' ratios.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.comparison.measured import LossPoint
from sagelet_engine.comparison.result import Comparison, Row

#: Fewer pairs give no meaningful interval. More pairs take too long.
FEWEST_PAIRS = 3
MOST_PAIRS = 20
#: 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093,
)  # fmt: skip
#: The figures of the verdict, the most significant first.
KEYS = ("throughput", "steady_throughput", "runtime", "training_seconds", "billable_seconds", "usd")
#: AWS gives these figures in whole seconds, or computes them from whole seconds. So half a second on either side is
#: unknown.
_WHOLE_SECONDS = {
    "training_seconds": "training_seconds",
    "billable_seconds": "billable_seconds",
    "usd": "billable_seconds",
}
#: A smaller change counts as none, whatever the interval.
EQUAL = 0.01
#: A difference of two loss curves up to this share of the native loss's fall does not matter.
SLIGHT = 0.01
BETTER, WORSE, SAME, NOISY = "better", "worse", "the same", "too noisy to say"


@dataclass(frozen=True)
class Figure:
    """One figure over all pairs."""

    #: As in Row.
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
class Losses:
    """The loss curves of all runs. Losses are in the unit that the script prints."""

    #: Points that all curves have.
    points: int
    #: The fall of the first job's median loss from the first point to the last.
    fall: float
    #: Largest difference of two runs of the first job at one point.
    spread: float
    #: Largest distance of the second job's median loss from the first one's at one point.
    distance: float
    #: Points at which this distance exceeds the tolerance: the spread of the first job's runs there, or 1 % of the fall
    #: if that is more.
    outside: int

    @property
    def agree(self) -> bool:
        return self.outside == 0


@dataclass(frozen=True)
class Verdict:
    """The result of several pairs."""

    #: Labels of the two jobs: native and compiled.
    labels: tuple[str, str]
    pairs: int
    figures: tuple[Figure, ...]
    #: None if a run printed no losses, or the runs printed them at different places.
    losses: Losses | None
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
    curves = [[_curve(pair.jobs[side].losses) for pair in pairs] for side in (0, 1)]
    labels = (pairs[0].jobs[0].label, pairs[0].jobs[1].label)
    return Verdict(labels, len(pairs), tuple(_figures(pairs)), _losses(*curves), tuple(load), tuple(frequency))


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
    """Returns half a second of either job's median, both as shares, added up."""
    return sum(0.5 / statistics.median(one[side] for one in values) for side in (0, 1))


def _figure(row: Row, values: Sequence[tuple[float, float]], unknown: float) -> Figure:
    """Returns one figure of all pairs. `unknown`: the share of the ratio that the figure's resolution hides."""
    first, second = (statistics.median(one[side] for one in values) for side in (0, 1))
    logarithms = [math.log(after / before) for before, after in values]
    mean = statistics.fmean(logarithms)
    error = _T[len(values) - 2] * statistics.stdev(logarithms) / math.sqrt(len(values)) + unknown
    ratio = math.exp(statistics.median(logarithms))
    low, high = math.exp(mean - error), math.exp(mean + error)
    verdict = _verdict(low, high, higher_is_better=row.better == "higher")
    return Figure(row.key, row.title, row.unit, first, second, ratio, low, high, verdict)


def _verdict(low: float, high: float, *, higher_is_better: bool) -> str:
    if low >= 1 - EQUAL and high <= 1 + EQUAL:
        return SAME
    if low <= 1 <= high:
        return NOISY
    return BETTER if (low > 1) is higher_is_better else WORSE


def _curve(points: Sequence[LossPoint]) -> Mapping[float, float]:
    """Returns the losses by epoch, or by number if a point does not have its epoch."""
    if all(point.epoch is not None for point in points):
        return {round(point.epoch or 0.0, 4): point.loss for point in points}
    return {float(number): point.loss for number, point in enumerate(points)}


def _losses(first: Sequence[Mapping[float, float]], second: Sequence[Mapping[float, float]]) -> Losses | None:
    places = sorted(set.intersection(*(set(curve) for curve in (*first, *second))))
    if not places:
        return None
    middle = [statistics.median(curve[place] for curve in first) for place in places]
    spreads = [_spread([curve[place] for curve in first]) for place in places]
    distances = [
        abs(statistics.median(curve[place] for curve in second) - loss)
        for place, loss in zip(places, middle, strict=True)
    ]
    fall = abs(middle[0] - middle[-1])
    tolerances = [max(spread, SLIGHT * fall) for spread in spreads]
    outside = sum(not distance <= tolerance for distance, tolerance in zip(distances, tolerances, strict=True))
    return Losses(len(places), fall, max(spreads), max(distances), outside)


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


def in_sentences(verdict: Verdict) -> Iterator[str]:
    """Yields the result in words: the losses first, because a faster way to another result is not faster."""
    if verdict.losses is not None:
        yield _of_losses(verdict.losses, *verdict.labels)
    yield "Seconds, throughput and ratios are this machine's. They are no forecast for a GPU of AWS."
    if verdict.load:
        load = f"{min(verdict.load):.1f} to {max(verdict.load):.1f}"
        yield f"Load of the machine before the runs: {load}{_frequencies(verdict.frequency)}."


def _frequencies(mhz: Sequence[float]) -> str:
    return f"; CPU frequency: {min(mhz):.0f} to {max(mhz):.0f} MHz" if mhz else ""


def _of_losses(losses: Losses, first: str, second: str) -> str:
    figures = (
        f"over {losses.points} points {second} is at most {losses.distance:.4g} away from {first}, whose runs differ "
        f"by up to {losses.spread:.4g} among themselves; the loss falls by {losses.fall:.4g}"
    )
    if losses.agree:
        return f"The losses agree: {figures}."
    return f"The losses do NOT agree at {losses.outside} of {losses.points} points: {figures}."
