"""Bounds the metric points that moto's CloudWatch keeps in memory. Only the newest stay, of jobs and of all other
namespaces. Its alarms begin in AWS's state.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from types import ModuleType
from typing import Any

from sagelet_api.protocol.members import Parameters
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.sinks import NAMESPACES, MetricPoint

#: Points of jobs that CloudWatch shows in an account and region. One takes 430 bytes.
MOST_POINTS = 50_000
#: Points of all other namespaces together.
MOST_PUT = 100_000
#: The share of the limit by which the list grows before it is walked again, so that not each point costs a walk.
_SHARE = 0.1
#: The attribute of a moto backend that says how long its list may become before the next walk.
_NEXT = "sagelet_next_walk"
_walking = threading.Lock()


def publish(cloudwatch: Any, key: JobKey, points: Sequence[MetricPoint]) -> None:
    """Adds points of a job. NaN and infinity are left out, because CloudWatch refuses them."""
    together: dict[tuple[str, str, int], list[float]] = {}
    for name, value, time_ms, host in points[-MOST_POINTS:]:
        if math.isfinite(value):
            together.setdefault((name, host, time_ms), []).append(value)
    data = [_datum(key.name, *which, values) for which, values in together.items()]
    cloudwatch.put_metric_data(key.kind.log_group, data)


def bound(models: ModuleType) -> None:
    """Patches `moto.cloudwatch.models`, as soon as that is loaded."""
    backend: Any = vars(models)["CloudWatchBackend"]
    put = backend.put_metric_data

    def put_metric_data(self: Any, namespace: str, metric_data: list[Parameters]) -> None:
        put(self, namespace, [part for datum in metric_data for part in _counted(datum)])
        _forget_oldest(self)

    backend.put_metric_data = put_metric_data


def leave_alarms_unevaluated(models: ModuleType) -> None:
    """Patches `moto.cloudwatch.models`, as soon as that is loaded: a new alarm has AWS's first state.

    moto says OK, though it looks at no metric.
    """
    alarm: Any = vars(models)["Alarm"]
    begin = alarm.__init__

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self.state_value = "INSUFFICIENT_DATA"

    alarm.__init__ = __init__


def _counted(datum: Parameters) -> list[Parameters]:
    """Returns values with counts as statistics. moto would keep each value as often as its count says, perhaps a
    billion times.
    """
    values, counts = datum.get("Values"), datum.get("Counts")
    if not values or not counts:
        return [datum]
    if "Value" in datum or len(counts) != len(values) or any(math.isnan(float(value)) for value in values):
        # moto refuses this.
        return [datum]
    rest = {name: value for name, value in datum.items() if name not in ("Values", "Counts")}
    if all(float(count) == 1 for count in counts):
        return [{**rest, "Values": values}]
    return [{**rest, "StatisticValues": _statistics(float(v), float(c))} for v, c in zip(values, counts, strict=True)]


def _statistics(value: float, count: float) -> Mapping[str, float]:
    return {"SampleCount": count, "Sum": value * count, "Minimum": value, "Maximum": value}


def _forget_oldest(cloudwatch: Any) -> None:
    stored: list[Any] = cloudwatch.metric_data
    if len(stored) < getattr(cloudwatch, _NEXT, min(MOST_POINTS, MOST_PUT) * (1 + _SHARE)):
        return
    with _walking:
        # Other threads may append meanwhile.
        seen = len(stored)
        left = {True: MOST_POINTS, False: MOST_PUT}
        kept = []
        for datum in reversed(stored[:seen]):
            ours = datum.namespace in NAMESPACES
            left[ours] -= 1
            if left[ours] >= 0:
                kept.append(datum)
        stored[:seen] = reversed(kept)
        setattr(cloudwatch, _NEXT, len(kept) + max(1, int(min(MOST_POINTS, MOST_PUT) * _SHARE)))


def _datum(job_name: str, metric: str, host: str, time_ms: int, values: list[float]) -> Parameters:
    """Returns a datum. As on AWS, instance metrics have the dimension Host, and metrics of a metric definition have
    TrainingJobName.
    """
    name, value = ("Host", f"{job_name}/{host}") if host else ("TrainingJobName", job_name)
    return {
        "MetricName": metric,
        "Dimensions": [{"Name": name, "Value": value}],
        **({"Unit": "Percent"} if host else {}),
        "Timestamp": datetime.fromtimestamp(time_ms / 1000, timezone.utc).replace(tzinfo=None),
        "Values": values,
    }


class MotoMetrics:
    """A MetricSink that puts points into moto's CloudWatch, which keeps the newest only."""

    def __init__(self, backends: Callable[[str], Any]) -> None:
        """`backends` returns moto's backends of a service, by account and region."""
        self._backends = backends

    def publish(self, key: JobKey, points: Sequence[MetricPoint]) -> None:
        publish(self._backends("cloudwatch")[key.account][key.region], key, points)
