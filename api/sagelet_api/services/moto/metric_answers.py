"""GetMetricData and GetMetricStatistics, computed by `metric_queries` from the points that moto keeps.

moto answers some metric math with an empty result, and counts periods from the first point.
"""

from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from types import ModuleType
from typing import Any

from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.services.metric_queries.answer import QueryRefused, results
from sagelet_api.services.metric_queries.datapoints import StatisticsRefused, Wanted, datapoints
from sagelet_api.services.metric_queries.search import Metric


def answer_data(models: ModuleType) -> None:
    """Patches `moto.cloudwatch.models`, as soon as that is loaded."""
    backend: Any = vars(models)["CloudWatchBackend"]
    backend.get_metric_data = _get_metric_data


def _get_metric_data(
    self: Any, queries: list[Parameters], start_time: datetime, end_time: datetime, scan_by: str = ""
) -> list[Output]:
    """Replaces moto's method of this name. The first two errors are moto's."""
    error = _error("ValidationError")
    start, end = start_time.replace(microsecond=0), end_time.replace(microsecond=0)
    if start > end:
        raise error("The parameter EndTime must be greater than StartTime.")
    if start == end:
        raise error("The parameter StartTime must not equal parameter EndTime.")
    newest_first = scan_by != "TimestampAscending"
    try:
        return results(list(self.get_all_metrics()), queries, start, end, newest_first=newest_first)
    except QueryRefused as refused:
        raise error(str(refused)) from refused


def answer_statistics(responses: ModuleType) -> None:
    """Patches `moto.cloudwatch.responses`, as soon as that is loaded.

    moto's periods begin at the first point, it walks through all periods from the first point to the last, and it has
    no percentiles.
    """
    response: Any = vars(responses)["CloudWatchResponse"]
    result: Any = vars(responses)["ActionResult"]

    def get_metric_statistics(self: Any) -> Any:
        wanted = _wanted(self._get_param)
        try:
            found = datapoints(list(self.cloudwatch_backend.get_all_metrics()), wanted)
        except StatisticsRefused as refused:
            raise _error(refused.code)(str(refused)) from refused
        return result({"Label": wanted.metric.name, "Datapoints": found})

    response.get_metric_statistics = get_metric_statistics


def _wanted(parameter: Callable[..., Any]) -> Wanted:
    for name in ("Namespace", "MetricName", "StartTime", "EndTime", "Period"):
        if parameter(name) is None:
            raise _error("InvalidParameterValue")(f"The parameter {name} is required.")
    pairs = tuple(sorted((one["Name"], one["Value"]) for one in parameter("Dimensions", [])))
    return Wanted(
        Metric(parameter("Namespace"), parameter("MetricName"), pairs), parameter("StartTime"), parameter("EndTime"),
        int(parameter("Period")), parameter("Statistics", []), parameter("ExtendedStatistics", []), parameter("Unit"),
    )  # fmt: skip


def _error(code: str) -> Any:
    """Returns moto's class of this name."""
    return getattr(import_module("moto.cloudwatch.exceptions"), code)
