"""A compile report as one sentence: the line at the end of the job's log."""

from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import Figures

#: The most steps that are named. The others are counted.
_NAMED = 8
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def summary(report: CompilerReport) -> str:
    """Returns one paragraph about a compiled job."""
    total, several = report.total, len(report.workers) > 1
    who = f"{len(report.workers)} workers, the slowest of them " if several else ""
    by_inductor = report.compiler == "inductor"
    compiled = _compiled(total, by_inductor=by_inductor, several=several)
    parts = [f"{who}{compiled} in {duration(total.compile_seconds)}{_steps(total)}"]
    if total.steps:
        parts.append(_took(total))
    elif total.optimizer_steps > 1:
        parts.append(f"{total.optimizer_steps} optimizer steps, but no graph was ended (torch_xla.sync)")
    if total.samples_per_second:
        parts.append(f"{figure(total.samples_per_second)} samples/s")
    if total.graph.breaks:
        parts.append(counted(total.graph.breaks, "graph break"))
    if tier := total.graph.tier.went_up_at:
        parts.append(f"models traced once from call {tier:,} on")
    if total.graph.untraced:
        parts.append(f"traced at each step: {', '.join(list(total.graph.untraced)[:3])}")
    if total.graph.recompiles:
        parts.append(counted(total.graph.recompiles, "recompilation"))
    if total.fallbacks:
        where = "natively" if by_inductor else "on the CPU"
        parts.append(f"{where} instead: {', '.join(list(total.fallbacks)[:3])}")
    if total.collectives.count:
        parts.append(f"{total.collectives.share:.0%} of the steps' time in collectives")
    if total.memory.peak_bytes:
        parts.append(f"at most {size(total.memory.peak_bytes)}")
    return "; ".join(parts) + f" (sagelet report {report.job})"


def heading(report: CompilerReport) -> str:
    """Returns how the job was compiled, and by what: `compiled on CPU by Inductor`."""
    by = "Inductor" if report.compiler == "inductor" else report.client or "torch_xla's own client"
    how = f"compiled on {report.platform} by {by}" if report.compiled else "trained natively"
    return how + (f" (NOT COMPILED: {report.reason})" if report.reason else "")


def by_compiler(name: str) -> str:
    """Returns how `native`, `inductor`, `xla` or `xla NAME=VALUE` trains, for people."""
    compiler, _, settings = name.partition(" ")
    how = {"native": "natively", "xla": "by XLA", "inductor": "by Inductor"}.get(compiler, f"by {compiler}")
    return f"{how} with {settings}" if settings else how


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def counted(count: int, noun: str) -> str:
    """`1 graph break`, `2,000 graph breaks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def figure(value: float) -> str:
    """Returns three digits, or all before the point: `70.8`, `2,443`."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """`113 ms`, `12.1 s`."""
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{figure(seconds * 1000)} ms"


def known(seconds: float) -> str:
    """Returns a duration, or `not known` for 0. A step takes time, so 0 says that nobody saw its start."""
    return duration(seconds) if seconds else "not known"


def size(count: int) -> str:
    """`1.2 GiB`."""
    unit, name = next(((unit, name) for unit, name in _UNITS if count >= unit), (1, "B"))
    return f"{figure(count / unit)} {name}"


def _compiled(total: Figures, *, by_inductor: bool, several: bool) -> str:
    """Returns what was done to the programs. Those of the compile cache are read, not compiled."""
    hits, cached = total.cache.hits, total.cache.hits + total.cache.misses
    if total.cache.has_all:
        return (
            "traced and read all programs from Inductor's cache" if by_inductor else "read all programs from the cache"
        )
    whose = "all workers' " if several else ""
    some = f", {hits} of {whose}{cached} programs from the cache," if hits else ""
    return f"compiled{' by Inductor' if by_inductor else ''} {times(total.compiles)}{some}"


def _steps(total: Figures) -> str:
    if not total.compiling_steps:
        return ""
    named = ", ".join(map(str, total.compiling_steps[:_NAMED]))
    more = max(total.compiling_step_count, len(total.compiling_steps)) - min(_NAMED, len(total.compiling_steps))
    word = "step" if len(total.compiling_steps) == 1 else "steps"
    return f" ({word} {named}{f' and {more} more' if more else ''})"


def _took(total: Figures) -> str:
    """Returns how many steps there were, and what is known of their times."""
    parts = [counted(total.steps, "step")]
    if total.first_step_seconds:
        parts.append(f"the first {duration(total.first_step_seconds)}")
    if total.steady_step_seconds:
        parts.append(f"steady {duration(total.steady_step_seconds)}")
    return ", ".join(parts)
