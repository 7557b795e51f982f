"""The figures of a compile report as rows of a name and a text, for every page and command that shows them."""

from collections.abc import Iterable

from sagelet_engine.telemetry.compiler.report import OtherCompiler
from sagelet_engine.telemetry.compiler.text import by_compiler, counted, duration, figure, known, size
from sagelet_engine.telemetry.compiler.worker import Figures, StepSeconds

#: The most compiling steps that are named by number.
MOST = 10
#: What says that the device is done, for people (`StepSeconds.clock`).
_CLOCKS = {"device": "by the device's clock", "waits": "between waits of the script"}

Rows = list[tuple[str, str]]


def rows(total: Figures, *, compiled: bool, by_inductor: bool = False) -> Rows:
    compiler = _inductor(total) if by_inductor else _compiler(total)
    return _steps(total) + (compiler if compiled else []) + _collectives(total)


def other_rows(others: Iterable[OtherCompiler]) -> list[tuple[str, str, str, str, str]]:
    """Returns how it was trained, the job, and its durations of a steady step, of compiling, and of all steps."""
    return [
        (
            by_compiler(one.compiler),
            one.job,
            known(one.step_seconds),
            duration(one.compile_seconds),
            duration(one.seconds),
        )
        for one in others
    ]


def _steps(total: Figures) -> Rows:
    steady, spread = known(total.steady_step_seconds), total.step_seconds
    throughput = f"{figure(total.samples_per_second)} samples/s" if total.samples_per_second else "not known"
    return [
        ("Steps", f"{total.steps:,}"),
        ("First step", known(total.first_step_seconds)),
        ("Steady step", f"{steady}{_spread(spread)}" if total.steady_step_seconds else steady),
        ("Steady throughput", throughput),
        ("Waited for input", duration(total.input_wait_seconds)),
        (f"Peak memory ({total.memory.kind or '-'})", size(total.memory.peak_bytes)),
    ]


def _spread(spread: StepSeconds) -> str:
    """Returns the range of nine intervals of ten, and how it is known that the device was done with a step."""
    if spread.count < 2:
        return f" ({_CLOCKS[spread.clock]})" if spread.clock in _CLOCKS else ""
    clock = f", {_CLOCKS[spread.clock]}" if spread.clock in _CLOCKS else ""
    return f" ({duration(spread.p5)} to {duration(spread.p95)} in nine of ten intervals{clock})"


def _compiler(total: Figures) -> Rows:
    moved = total.transfers
    return [
        *_programs(total),
        *_device(total),
        *_tracing(total),
        *_replayed(total),
        ("Graph breaks", f"{total.graph.breaks:,} ({total.graph.breaks_per_step:.3g} a step)"),
        ("To the device", f"{moved.to_device.count:,} transfers, {size(moved.to_device.bytes)}"),
        ("From the device", f"{moved.from_device.count:,} transfers, {size(moved.from_device.bytes)}"),
    ]


def _tracing(total: Figures) -> Rows:
    tier = total.graph.tier
    if tier.went_up_at:
        parts = [f"once from call {tier.went_up_at:,} on, which took {duration(tier.seconds)}", f"{tier.calls:,} calls"]
        parts += [f"{count:,} at that step: {why}" for why, count in tier.breaks.items()]
        return [("Models are traced", "; ".join([*parts, *(f"at each step: {why}" for why in tier.stayed)]))]
    if tier.stayed:
        return [("Models are traced", "; ".join(f"at each step: {why}" for why in tier.stayed))]
    if not total.graph.traced_once:
        return []
    return [("Models are traced", "; ".join(["once", *(f"at each step: {one}" for one in total.graph.untraced)]))]


def _replayed(total: Figures) -> Rows:
    """Returns nothing for a job that could replay nothing."""
    counts = total.replayed
    if not (counts.programs or counts.traced):
        return []
    what = f"{counted(counts.steps, 'optimizer step')} and {counted(counts.clips, 'clipping')}"
    text = f"{what}, by {counted(counts.programs, 'program')}"
    rows = [("Replayed", text)]
    traced = [f"{what} ({count:,})" for what, count in counts.traced.items()]
    return [*rows, ("Traced instead", "; ".join(traced))] if traced else rows


def _inductor(total: Figures) -> Rows:
    graph = total.graph
    return [
        *_programs(total),
        ("Graphs", f"{graph.unique:,} of {graph.frames:,} functions, the largest of {graph.nodes_max:,} nodes"),
        ("Graph breaks", _with_reason(graph.breaks, graph.break_reasons)),
        ("Recompilations", _with_reason(graph.recompiles, graph.recompile_reasons)),
        ("Natively instead", "; ".join(total.fallbacks) or "nothing"),
    ]


def _programs(total: Figures) -> Rows:
    steps, cache = ", ".join(map(str, total.compiling_steps[:MOST])), total.cache
    return [
        ("Compilations", f"{total.compiles:,} in {duration(total.compile_seconds)}"),
        ("Steps that compiled", f"{total.compiling_step_count:,}: {steps}" if steps else "none"),
        ("Compile cache", f"{cache.hits} hits, {cache.misses} misses" if cache.enabled else f"off: {cache.reason}"),
        ("Executions", _executions(total)),
    ]


def _executions(total: Figures) -> str:
    """Leaves out the time where nobody knows it: torch_xla's own client does not say when a program ends."""
    return f"{total.executions:,}" + (f" in {duration(total.execute_seconds)}" if total.execute_seconds else "")


def _device(total: Figures) -> Rows:
    """Returns rows of an XLA device."""
    device = total.device
    rows = [
        ("Dispatch of a step", f"{known(total.dispatch_seconds)} (the script's clock, which does not wait)"),
        ("Waited for the device", duration(total.device_wait_seconds)),
    ]
    if device.busy_seconds:
        between = f"{duration(device.busy_seconds)}, idle between programs {duration(device.idle_seconds)}"
        rows.append(("Device busy", f"{between}, at most {device.deepest_queue:,} programs due at once"))
    return rows


def _with_reason(count: int, reasons: dict[str, int]) -> str:
    most = max(reasons, key=lambda reason: reasons[reason], default="")
    return f"{count:,} ({most})" if most else f"{count:,}"


def _collectives(total: Figures) -> Rows:
    one = total.collectives
    if not one.count:
        return []
    text = f"{one.count:,}, {size(one.bytes)}, {duration(one.seconds)}, {one.share:.0%} of the steps' time"
    return [("Collectives", text)]
