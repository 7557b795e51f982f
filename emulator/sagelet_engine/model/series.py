"""Samples of one metric over time or over steps, and statistics over parts of them (SageMaker Metrics)."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Reduce = Callable[[Sequence[float]], float]

#: botocore's enum MetricStatistic.
STATISTICS: dict[str, Reduce] = {
    "Min": min,
    "Max": max,
    "Avg": lambda values: math.fsum(values) / len(values),
    "Count": len,
    "StdDev": lambda values: _deviation(values),
    "Last": lambda values: values[-1],
}


@dataclass(frozen=True)
class Sample:
    """One value of one metric."""

    #: ms since the epoch.
    time_ms: int
    value: float
    #: Iteration number. None if the sample has none.
    step: int | None = None


def by_time(
    samples: Iterable[Sample], seconds: int, start: int | None, end: int | None, reduce: Reduce
) -> list[tuple[int, float]]:
    """Returns the start of each period that has samples, in epoch seconds, and its statistic; start <= time < end."""
    placed = [(sample.time_ms // 1000, sample) for sample in sorted(samples, key=lambda sample: sample.time_ms)]
    return _reduced(((at - at % seconds, sample) for at, sample in _within(placed, start, end)), reduce)


def by_step(samples: Iterable[Sample], start: int | None, end: int | None, reduce: Reduce) -> list[tuple[int, float]]:
    """Returns each step that has samples, and its statistic; start <= step < end. Samples without a step are left
    out.
    """
    placed = [(sample.step, sample) for sample in samples if sample.step is not None]
    return _reduced(_within(placed, start, end), reduce)


def _deviation(values: Sequence[float]) -> float:
    from statistics import pstdev  # Loaded late: it brings fractions and decimal numbers.

    return pstdev(values)


def _within(placed: Iterable[tuple[int, Sample]], start: int | None, end: int | None) -> list[tuple[int, Sample]]:
    return [(at, sample) for at, sample in placed if (start is None or at >= start) and (end is None or at < end)]


def _reduced(placed: Iterable[tuple[int, Sample]], reduce: Reduce) -> list[tuple[int, float]]:
    groups: dict[int, list[float]] = {}
    for at, sample in placed:
        groups.setdefault(at, []).append(sample.value)
    return [(at, float(reduce(groups[at]))) for at in sorted(groups)]
