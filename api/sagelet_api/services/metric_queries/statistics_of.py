"""The statistics of points that CloudWatch holds, one value for each period."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from sagelet_api.services.metric_queries.search import Metric
from sagelet_api.services.metric_queries.syntax import BadExpression

#: A point as moto stores it: `MetricDatum` with a value, or `MetricAggregatedDatum` with statistics.
Point = Any
MINUTE = 60
#: Periods below a minute that a metric may have.
_SHORT = frozenset({1, 5, 10, 20, 30})
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,10})?|100)")


def of_points(points: Iterable[Point], statistic: str, period: int, start: int) -> dict[int, float]:
    """Returns values by the beginning of their period, in order. Periods count from `start`, rounded. Times are seconds
    since the epoch.

    Raises BadExpression for a statistic that is not computed.
    """
    check(statistic)
    begin = rounded(start, period)
    periods: defaultdict[int, list[Point]] = defaultdict(list)
    for point in points:
        if seconds(point.timestamp) >= begin:
            periods[begin + (seconds(point.timestamp) - begin) // period * period].append(point)
    found = {time: _statistic(statistic, periods[time]) for time in sorted(periods)}
    return {time: value for time, value in found.items() if value is not None and math.isfinite(value)}


def rounded(start: int, period: int) -> int:
    """Rounds a start down as AWS does: to the minute, or for a short period to a multiple of it within the minute. A
    period of 1 s is not rounded.

    AWS rounds starts that are weeks old more coarsely, because its storage of them is coarser. sagelet does not do
    that.
    """
    return start // period * period if period in _SHORT else start // MINUTE * MINUTE


def is_period(length: int) -> bool:
    return length in _SHORT or (length > 0 and length % MINUTE == 0)


def check(statistic: str) -> None:
    """Raises BadExpression for a statistic that is not computed."""
    if statistic not in KNOWN and _PERCENTILE.fullmatch(statistic) is None:
        raise BadExpression(f"sagelet does not compute the statistic {statistic}")


def by_metric(points: Iterable[Point]) -> Mapping[Metric, list[Point]]:
    found: defaultdict[Metric, list[Point]] = defaultdict(list)
    for point in points:
        pairs = tuple(sorted((one.name, one.value) for one in point.dimensions))
        found[Metric(point.namespace, point.name, pairs)].append(point)
    return found


def seconds(time: datetime) -> int:
    """Returns seconds since the epoch. moto's times have no zone and are UTC."""
    return math.floor((time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp())


def finite_sum(values: Iterable[float]) -> float:
    """Returns the sum, or infinity if it is too large for a float."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def _statistic(name: str, points: Sequence[Point]) -> float | None:
    """Returns a statistic of points, or None if they have no such statistic."""
    if name in KNOWN:
        count = sum(getattr(one, "sample_count", 1) for one in points)
        total = finite_sum(one.sum if hasattr(one, "sample_count") else one.value for one in points)
        match name:
            case "SampleCount":
                return float(count)
            case "Sum":
                return total
            case "Average":
                return total / count if count else None
            case "Minimum":
                return float(min(one.min if hasattr(one, "sample_count") else one.value for one in points))
            case _:
                return float(max(one.max if hasattr(one, "sample_count") else one.value for one in points))
    return _percentile(name, points)


KNOWN = frozenset({"SampleCount", "Sum", "Average", "Minimum", "Maximum"})


def _percentile(name: str, points: Sequence[Point]) -> float | None:
    """Returns a percentile, interpolated between the nearest values. Statistic sets have one only if all of their
    values are the same, as on AWS.
    """
    values: list[float] = []
    for one in points:
        if not hasattr(one, "sample_count"):
            values.append(one.value)
        elif one.min == one.max:
            # 1,000 points of one value are enough: more of them would hardly change a percentile.
            values.extend([one.min] * int(min(one.sample_count, 1000)))
        else:
            return None
    values.sort()
    if not values:
        return None
    place = float(name[1:]) / 100 * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)
