"""A report's figures as CloudWatch metrics of the job, beside those of its metric definitions: the same namespace and
dimension, no unit.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import Figures
from sagelet_engine.telemetry.metrics import float32

#: AWS has no metrics of these names, and a metric definition is unlikely to use a colon in a name.
PREFIX = "sagelet:"


class Measure(NamedTuple):
    """What a metric is, for people."""

    title: str
    #: `s`, `B`, `samples/s`, `share` (0 to 1), or empty for a count.
    unit: str = ""


class Figure(NamedTuple):
    """A metric and its value in a report. 0 is "not known"."""

    measure: Measure
    value: Callable[[Figures], float]
    #: False if jobs that train natively do not have it.
    native: bool = False


#: By the metric's name without PREFIX, in the order in which people read them. Docs: docs/reference/compiler-report.md.
FIGURES: Mapping[str, Figure] = {
    "steps": Figure(Measure("Steps so far"), lambda total: total.steps, native=True),
    "samples_per_second": Figure(
        Measure("Steady throughput", "samples/s"), lambda total: total.samples_per_second, native=True
    ),
    "first_step_seconds": Figure(Measure("First step", "s"), lambda total: total.first_step_seconds, native=True),
    "steady_step_seconds": Figure(Measure("Steady step", "s"), lambda total: total.steady_step_seconds, native=True),
    "compiles": Figure(Measure("Compilations so far"), lambda total: total.compiles),
    "compile_seconds": Figure(Measure("Compiling so far", "s"), lambda total: total.compile_seconds),
    "compiling_steps": Figure(Measure("Steps that compiled so far"), lambda total: total.compiling_step_count),
    "input_wait_seconds": Figure(
        Measure("Waited for input so far", "s"), lambda total: total.input_wait_seconds, native=True
    ),
    "peak_memory_bytes": Figure(Measure("Peak memory", "B"), lambda total: total.memory.peak_bytes, native=True),
    "collective_share": Figure(
        Measure("Collectives' share of the steps' time", "share"), lambda total: total.collectives.share, native=True
    ),
    "cache_hits": Figure(Measure("Hits of the compile cache so far"), lambda total: total.cache.hits),
    "graph_breaks_per_step": Figure(Measure("Graph breaks per step"), lambda total: total.graph.breaks_per_step),
    "cpu_fallbacks": Figure(
        Measure("Operations on the CPU instead so far"), lambda total: sum(total.fallbacks.values())
    ),
    "to_device_bytes": Figure(Measure("To the device so far", "B"), lambda total: total.transfers.to_device.bytes),
    "from_device_bytes": Figure(
        Measure("From the device so far", "B"), lambda total: total.transfers.from_device.bytes
    ),
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
    return {name: figure.value(report.total) for name, figure in FIGURES.items() if figure.native or report.compiled}
