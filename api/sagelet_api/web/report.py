"""The compile report in words and figures, for a page (docs/reference/compiler-report.md)."""

from typing import Any

from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.text import duration, size, summary
from sagelet_engine.telemetry.compiler.worker import Figures, Place

#: Rows of the tables of places, shapes and operations.
MOST = 20

Rows = list[tuple[str, str]]


def report_view(report: CompilerReport) -> dict[str, Any]:
    total = report.total
    return {
        "summary": summary(report) if report.compiled else "",
        "figures": _steps(total) + (_compiler(total) if report.compiled else []) + _collectives(total),
        "places": [
            ("Values read", "Each read ends a graph and waits for the device.", _places(total.evaluations)),
            ("XLA tensors saved", "torch.save of tensors on the device.", _places(total.saves)),
            ("CUDA devices asked for", "", _places(total.devices.cuda_requests)),
        ],
        "fallbacks": list(total.fallbacks.items())[:MOST],
        "shapes": [(" x ".join(map(str, one.shape)), one.count) for one in total.batch_shapes[:MOST]],
    }


def _steps(total: Figures) -> Rows:
    steady = duration(total.steady_step_seconds)
    return [
        ("Steps", f"{total.steps:,}"),
        ("First step", duration(total.first_step_seconds)),
        ("Steady step", f"{steady} (95 %: {duration(total.step_seconds.p95)})"),
        ("Samples per second", f"{total.samples_per_second:.4g}" if total.samples_per_second else "not known"),
        ("Waited for input", duration(total.input_wait_seconds)),
        (f"Peak memory ({total.memory.kind or '-'})", size(total.memory.peak_bytes)),
    ]


def _compiler(total: Figures) -> Rows:
    steps = ", ".join(map(str, total.compiling_steps[:MOST]))
    cache, moved = total.cache, total.transfers
    return [
        ("Compilations", f"{total.compiles} in {duration(total.compile_seconds)}"),
        ("Steps that compiled", f"{total.compiling_step_count}: {steps}" if steps else "none"),
        ("Compile cache", f"{cache.hits} hits, {cache.misses} misses" if cache.enabled else f"off: {cache.reason}"),
        ("Executions", f"{total.executions:,} in {duration(total.execute_seconds)}"),
        ("Graph breaks", f"{total.graph.breaks:,} ({total.graph.breaks_per_step:.3g} a step)"),
        ("To the device", f"{moved.to_device.count:,} transfers, {size(moved.to_device.bytes)}"),
        ("From the device", f"{moved.from_device.count:,} transfers, {size(moved.from_device.bytes)}"),
    ]


def _collectives(total: Figures) -> Rows:
    one = total.collectives
    if not one.count:
        return []
    text = f"{one.count:,}, {size(one.bytes)}, {duration(one.seconds)}, {one.share:.0%} of the time"
    return [("Collectives", text)]


def _places(places: tuple[Place, ...]) -> list[tuple[str, str, str, int, str]]:
    """Call, where, by, times, took."""
    return [
        (one.call, f"{one.file}:{one.line} {one.function}" if one.file else "", one.via, one.count,
         duration(one.seconds))
        for one in places[:MOST]
    ]  # fmt: skip
