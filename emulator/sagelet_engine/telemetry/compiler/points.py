"""A report's figures as CloudWatch metrics of the job, beside those of its metric definitions: the same namespace and
dimension, no unit.
"""

from collections.abc import Mapping
from typing import NamedTuple

from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.metrics import float32

#: AWS has no metrics of these names, and a metric definition is unlikely to use a colon in a name.
PREFIX = "sagelet:"


class Figure(NamedTuple):
    """What a metric is, for people."""

    title: str
    #: `s`, `B`, `samples/s`, `share` (0 to 1), or empty for a count.
    unit: str = ""


#: By the metric's name without PREFIX, in the order in which people read them. Docs: docs/reference/compiler-report.md.
FIGURES: Mapping[str, Figure] = {
    "steps": Figure("Steps so far"),
    "samples_per_second": Figure("Steady throughput", "samples/s"),
    "first_step_seconds": Figure("First step", "s"),
    "steady_step_seconds": Figure("Steady step", "s"),
    "compiles": Figure("Compilations so far"),
    "compile_seconds": Figure("Compiling so far", "s"),
    "compiling_steps": Figure("Steps that compiled so far"),
    "input_wait_seconds": Figure("Waited for input so far", "s"),
    "peak_memory_bytes": Figure("Peak memory", "B"),
    "collective_share": Figure("Collectives' share of the steps' time", "share"),
    "cache_hits": Figure("Hits of the compile cache so far"),
    "graph_breaks_per_step": Figure("Graph breaks per step"),
    "cpu_fallbacks": Figure("Operations on the CPU instead so far"),
    "to_device_bytes": Figure("To the device so far", "B"),
    "from_device_bytes": Figure("From the device so far", "B"),
}


def points(report: CompilerReport, now_ms: int) -> list[MetricPoint]:
    """Returns one point for each known figure, by name."""
    return [
        MetricPoint(f"{PREFIX}{name}", float32(float(value)), now_ms)
        for name, value in sorted(values(report).items())
        if value
    ]


def values(report: CompilerReport) -> dict[str, float]:
    """Returns the figures of a report, by their names in FIGURES. 0 is "not known"."""
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
