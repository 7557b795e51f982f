"""The results of GetMetricData."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from sagelet_api.protocol.members import Output
from sagelet_api.services.metric_queries import statistics_of, syntax
from sagelet_api.services.metric_queries.evaluate import Scope, evaluate
from sagelet_api.services.metric_queries.search import Metric, compile_search
from sagelet_api.services.metric_queries.series import Series, Value
from sagelet_api.services.metric_queries.statistics_of import Point
from sagelet_api.services.metric_queries.syntax import BadExpression, Node

#: AWS: the most time series that a search returns.
MOST_FOUND = 100
#: AWS: the most data points that a call returns.
MOST_POINTS = 100_800
#: Points of all series on the way to the answer, which is some seconds of work. An array of arrays of arrays has no
#: bound.
MOST_WORK = 5_000_000
#: The period in seconds if no metric of the request has one.
USUAL_PERIOD = 300
Query = Mapping[str, Any]
_LESS = "ask for less: a shorter time, a longer period, fewer metrics"


class QueryRefused(Exception):
    """A refused query. The text becomes a ValidationError's."""


def results(
    points: Iterable[Point], queries: Sequence[Query], start: datetime, end: datetime, *, newest_first: bool
) -> list[Output]:
    """Returns one result for each query that returns data, and one for each series of an array.

    Members are `id`, `label`, `values`, `timestamps` (UTC, without a zone) and `status_code`, as in moto. Raises
    QueryRefused.
    """
    _check(queries)
    begin, over = statistics_of.seconds(start), statistics_of.seconds(end)
    earliest = statistics_of.rounded(begin, statistics_of.MINUTE)
    found = _Queries(
        [one for one in points if earliest <= statistics_of.seconds(one.timestamp) < over], queries, begin, over
    )
    answers: list[Output] = []
    returned = 0
    for query in queries:
        value = found.value(query["Id"])
        if not query.get("ReturnData", True):
            continue
        if isinstance(value, float):
            raise QueryRefused(f"{_where(query)}the result is a number; a time series is needed: TIME_SERIES makes one")
        many = isinstance(value, list)
        for one in value if isinstance(value, list) else [value]:
            returned += len(one.points)
            if returned > MOST_POINTS:
                raise QueryRefused(
                    f"The answer has more than {MOST_POINTS} data points, and sagelet has no pages: {_LESS}"
                )
            answers.append(_answer(query, one, many=many, newest_first=newest_first))
    return answers


class _Queries:
    def __init__(self, points: Sequence[Point], queries: Sequence[Query], start: int, end: int) -> None:
        self._queries = {query["Id"]: query for query in queries}
        self._start, self._end = start, end
        self._metrics = statistics_of.by_metric(points)
        self._trees = {query["Id"]: _parsed(query) for query in queries if query.get("Expression")}
        self._values: dict[str, Value] = {}
        #: Ids of the queries that are being computed for the requested one.
        self._path: list[str] = []
        periods = [int(query["MetricStat"]["Period"]) for query in queries if "MetricStat" in query]
        own = [int(query["Period"]) for query in queries if query.get("Period")]
        self._period = max(periods or own, default=USUAL_PERIOD)
        self._base: dict[str, Series] = {}
        self._work = 0

    def value(self, name: str) -> Value:
        """Returns the value of a query. Raises QueryRefused."""
        if name not in self._values:
            query = self._queries[name]
            self._path.append(name)
            try:
                self._values[name] = self._computed(query)
            except BadExpression as error:
                raise QueryRefused(f"{_where(query)}{error}") from error
            except RecursionError as error:
                raise QueryRefused(f"{_where(query)}it is nested too deeply") from error
            finally:
                self._path.pop()
        return self._values[name]

    def _computed(self, query: Query) -> Value:
        if "MetricStat" in query:
            return self._metric(query)
        period = int(query.get("Period") or self._period)
        tree = self._trees[query["Id"]]
        metrics = self._all_metrics() if syntax.calls(tree, "METRICS") else {}
        return evaluate(tree, Scope(self._other, metrics, self._search, self._times, period, self._worked))

    def _metric(self, query: Query) -> Series:
        if query["Id"] not in self._base:
            wanted = query["MetricStat"]
            pairs = tuple(sorted((one["Name"], one["Value"]) for one in wanted["Metric"].get("Dimensions", [])))
            metric = Metric(wanted["Metric"]["Namespace"], wanted["Metric"]["MetricName"], pairs)
            points = self._metrics.get(metric, [])
            if wanted.get("Unit"):
                points = [one for one in points if one.unit == wanted["Unit"]]
            label = query.get("Label") or f"{metric.name} {wanted['Stat']}"
            self._base[query["Id"]] = self._series(label, points, wanted["Stat"], int(wanted["Period"]))
        return self._base[query["Id"]]

    def _all_metrics(self) -> dict[str, Series]:
        return {name: self._metric(query) for name, query in self._queries.items() if "MetricStat" in query}

    def _series(self, label: str, points: Iterable[Point], statistic: str, period: int) -> Series:
        return Series(label, period, statistics_of.of_points(points, statistic, period, self._start))

    def _search(self, term: str, statistic: str, period: int) -> list[Series]:
        test = compile_search(term)
        statistics_of.check(statistic)
        found = sorted((one for one in self._metrics if test(one)), key=lambda one: (one.label, one.namespace))
        return [self._series(one.label, self._metrics[one], statistic, period) for one in found[:MOST_FOUND]]

    def _other(self, name: str) -> Value:
        if name not in self._queries:
            raise BadExpression(f"there is no query with the id {name!r}")
        if name in self._path:
            raise BadExpression(f"it asks for itself: {' -> '.join([*self._path, name])}")
        return self.value(name)

    def _worked(self, value: Value) -> None:
        each = value if isinstance(value, list) else [value]
        self._work += sum(1 + (len(one.points) if isinstance(one, Series) else 0) for one in each)
        if self._work > MOST_WORK:
            raise BadExpression(f"the request takes more than {MOST_WORK} points on the way to its answer: {_LESS}")

    def _times(self, period: int) -> Sequence[int]:
        times = range(statistics_of.rounded(self._start, period), self._end, period)
        if len(times) > MOST_POINTS:
            raise BadExpression(
                f"that is more than {MOST_POINTS} data points: ask for a shorter time or a longer period"
            )
        return times


def _check(queries: Sequence[Query]) -> None:
    if len({query["Id"] for query in queries}) < len(queries):
        raise QueryRefused("The values for parameter id in MetricDataQueries are not unique.")
    for query in queries:
        if "MetricStat" in query and "Expression" in query:
            raise QueryRefused(f"{_where(query)}it has MetricStat and Expression; a query has one of them")


def _parsed(query: Query) -> Node:
    text = query["Expression"]
    if text.lstrip().upper().startswith("SELECT "):
        raise QueryRefused(f"{_where(query)}sagelet does not run Metrics Insights queries; use SEARCH or metric math")
    try:
        return syntax.parse(text)
    except BadExpression as error:
        raise QueryRefused(f"{_where(query)}{error}") from error


def _answer(query: Query, series: Series, *, many: bool, newest_first: bool) -> Output:
    times = sorted(series.points, reverse=newest_first)
    own = query.get("Label") or ("" if many else query["Id"] if query.get("Expression") else series.label)
    return {
        "id": query["Id"],
        "label": " ".join(part for part in (own, series.label if many else "") if part),
        "values": [series.points[time] for time in times],
        "timestamps": [datetime.fromtimestamp(time, timezone.utc).replace(tzinfo=None) for time in times],
        "status_code": "Complete",
    }


def _where(query: Query) -> str:
    return f"Error in expression '{query['Id']}': " if query.get("Expression") else f"Query '{query['Id']}': "
