"""The answer of GetMetricStatistics: statistics of one metric, by periods that begin at full minutes, as on AWS."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from sagelet_api.protocol.members import Output
from sagelet_api.services.metric_queries import statistics_of
from sagelet_api.services.metric_queries.search import Metric
from sagelet_api.services.metric_queries.statistics_of import Point
from sagelet_api.services.metric_queries.syntax import BadExpression

#: AWS: the most data points that a call returns.
MOST = 1440
#: The unit of points that were put without a unit.
_NO_UNIT = "None"


class StatisticsRefused(Exception):
    """A refused request: `code` and text of the error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Wanted:
    metric: Metric
    start: datetime
    end: datetime
    #: Seconds.
    period: int
    statistics: Sequence[str]
    #: Percentiles.
    extended: Sequence[str]
    #: None: the points of each unit separately.
    unit: str | None


def datapoints(points: Iterable[Point], wanted: Wanted) -> list[Output]:
    """Returns data points in the members of AWS's answer, the earliest first. Raises StatisticsRefused."""
    start, end = statistics_of.seconds(wanted.start), statistics_of.seconds(wanted.end)
    _check(wanted, start, end)
    begin = statistics_of.rounded(start, wanted.period)
    there = [one for one in points if begin <= statistics_of.seconds(one.timestamp) < end]
    by_unit: defaultdict[str, list[Point]] = defaultdict(list)
    for one in statistics_of.by_metric(there).get(wanted.metric, []):
        by_unit[one.unit or _NO_UNIT].append(one)
    found = [
        answer for unit, own in by_unit.items() if wanted.unit in (None, unit) for answer in _of_unit(own, unit, wanted)
    ]
    return sorted(found, key=lambda one: (one["Timestamp"], one["Unit"]))


def _check(wanted: Wanted, start: int, end: int) -> None:
    if start >= end:
        raise _invalid("The parameter StartTime must be less than the parameter EndTime.")
    if not wanted.statistics and not wanted.extended:
        raise StatisticsRefused("InvalidParameterCombination", "Must specify either Statistics or ExtendedStatistics")
    if not statistics_of.is_period(wanted.period):
        raise _invalid("The parameter Period must be 1, 5, 10, 20, 30 or a multiple of 60")
    for name in wanted.statistics:
        if name not in statistics_of.KNOWN:
            raise _invalid(f"The parameter Statistics has the value {name!r}, which is not a statistic")
    asked = (end - start) // wanted.period
    if asked > MOST:
        raise StatisticsRefused(
            "InvalidParameterCombination",
            f"You have requested up to {asked:,} datapoints, which exceeds the limit of {MOST:,}. You may reduce the "
            "datapoints requested by increasing Period, or decreasing the time range.",
        )


def _of_unit(points: Sequence[Point], unit: str, wanted: Wanted) -> Iterable[Output]:
    start = statistics_of.seconds(wanted.start)
    found: defaultdict[int, Output] = defaultdict(dict)
    extended: defaultdict[int, dict[str, float]] = defaultdict(dict)
    try:
        for name in wanted.statistics:
            for time, value in statistics_of.of_points(points, name, wanted.period, start).items():
                found[time][name] = value
        for name in wanted.extended:
            for time, value in statistics_of.of_points(points, name, wanted.period, start).items():
                extended[time][name] = value
    except BadExpression as error:
        raise _invalid(str(error)) from error
    for time in {**found, **extended}:
        at = datetime.fromtimestamp(time, timezone.utc).replace(tzinfo=None)
        percentiles = {"ExtendedStatistics": extended[time]} if time in extended else {}
        yield {"Timestamp": at, "Unit": unit, **found[time], **percentiles}


def _invalid(text: str) -> StatisticsRefused:
    return StatisticsRefused("InvalidParameterValue", text)
