"""The curves of a job: what its metric definitions found in the log, and what its hosts used."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sagelet_api.web import PREFIX
from sagelet_api.web.site import Site
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

#: Samples of a curve, more than a chart has columns.
MOST = 1000


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("charts", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    @routes.get("/curves")
    def curves(name: str) -> dict[str, Any]:
        """Specifications of charts for `charts.js`; x in seconds since the training began."""
        job = site.job(name)
        return {"metrics": metric_charts(site, job), "instances": host_charts(job, site.engine.metrics.of_hosts(job))}

    return routes


def metric_charts(site: Site, job: TrainingJob) -> list[dict[str, Any]]:
    charts = []
    for name in site.engine.metrics.names(job):
        samples = site.engine.metrics.curve(job, name, MOST)
        # Lines of several hosts come in as they are read.
        points = sorted((sample.time_ms, sample.value) for sample in samples)
        series = _series(job, name, points)
        charts.append({"title": name, "unit": "", "xLabel": "seconds", "series": [series]})
    return charts


def host_charts(job: TrainingJob, points: Iterable[MetricPoint]) -> list[dict[str, Any]]:
    """A chart a metric, a curve a host."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for point in points:
        found.setdefault(point.name, {}).setdefault(point.host or "", []).append((point.time_ms, point.value))
    return [
        {
            "title": name,
            "unit": "%",
            "xLabel": "seconds",
            "series": [_series(job, host, _thinned(samples)) for host, samples in sorted(hosts.items())],
        }
        for name, hosts in sorted(found.items())
    ]


def _thinned(samples: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """One a minute: of a job of weeks, each n-th."""
    return samples[:: -(-len(samples) // MOST)]


def _series(job: TrainingJob, label: str, samples: Iterable[tuple[int, float]]) -> dict[str, Any]:
    start = job.training_start_ms or job.created_ms
    kept = list(samples)
    # JSON has no NaN and no infinity.
    values = [value if math.isfinite(value) else None for _, value in kept]
    return {"label": label, "x": [(time_ms - start) / 1000 for time_ms, _ in kept], "y": values}
