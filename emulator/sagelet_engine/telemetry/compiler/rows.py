"""The figures of a compile report as rows of a name and a text, for every page and command that shows them."""

from sagelet_engine.telemetry.compiler.text import duration, size
from sagelet_engine.telemetry.compiler.worker import Figures

#: The most compiling steps that are named by number.
MOST = 10

Rows = list[tuple[str, str]]


def rows(total: Figures, *, compiled: bool) -> Rows:
    return _steps(total) + (_compiler(total) if compiled else []) + _collectives(total)


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
        ("Compilations", f"{total.compiles:,} in {duration(total.compile_seconds)}"),
        ("Steps that compiled", f"{total.compiling_step_count:,}: {steps}" if steps else "none"),
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
    text = f"{one.count:,}, {size(one.bytes)}, {duration(one.seconds)}, {one.share:.0%} of the steps' time"
    return [("Collectives", text)]
