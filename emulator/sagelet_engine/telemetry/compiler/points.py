"""A report's figures as CloudWatch metrics of the job, beside those of its metric definitions: the same namespace and
dimension, no unit.
"""

from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.metrics import float32

#: AWS has no metrics of these names, and a metric definition is unlikely to use a colon in a name.
PREFIX = "sagelet:"


def points(report: CompilerReport, now_ms: int) -> list[MetricPoint]:
    """Returns one point for each known figure, by name."""
    return [
        MetricPoint(f"{PREFIX}{name}", float32(float(value)), now_ms)
        for name, value in sorted(_values(report).items())
        if value
    ]


def _values(report: CompilerReport) -> dict[str, float]:
    total = report.total
    values = {
        "steps": total.steps,
        "first_step_seconds": total.first_step_seconds,
        "steady_step_seconds": total.steady_step_seconds,
        "input_wait_seconds": total.input_wait_seconds,
        "samples_per_second": total.samples_per_second,
        "peak_memory_bytes": total.memory.peak_bytes,
        "collective_share": total.collectives.share,
    }
    if report.compiled:
        values |= {
            "compiles": total.compiles,
            "compile_seconds": total.compile_seconds,
            "compiling_steps": total.compiling_step_count,
            "cache_hits": total.cache.hits,
            "graph_breaks_per_step": total.graph.breaks_per_step,
            "cpu_fallbacks": sum(total.fallbacks.values()),
            "to_device_bytes": total.transfers.to_device.bytes,
            "from_device_bytes": total.transfers.from_device.bytes,
        }
    return values
