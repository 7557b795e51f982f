"""`sagelet compiler report: {json}`: torch_xla's own counters, once, when a process that used XLA exits."""

import atexit
import collections
import json
import os
import statistics
import time
from typing import Any

from sagelet_runtime import compile_cache
from sagelet_runtime.say import say

PREFIX = "sagelet compiler report: "


class StepTimer:
    """Times the script's steps: from one graph end (torch_xla.sync, mark_step) after an optimizer step to the next."""

    def __init__(self, window: int = 2048) -> None:
        self.optimizer_steps = 0
        self._marked_at = 0
        self._last: float | None = None
        self._compiles = 0
        self._seconds: collections.deque[float] = collections.deque(maxlen=window)

    def optimizer_stepped(self) -> None:
        self.optimizer_steps += 1

    def graph_ended(self, now: float, compiles: int) -> None:
        """`compiles`: programs compiled so far; an interval in which one was is no measure of a step."""
        if self.optimizer_steps == self._marked_at:
            return
        if self._last is not None and compiles == self._compiles:
            self._seconds.append(now - self._last)
        self._marked_at, self._last, self._compiles = self.optimizer_steps, now, compiles

    def median_ms(self) -> float | None:
        return round(statistics.median(self._seconds) * 1000, 3) if self._seconds else None


def install(torch_xla: Any) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch_xla.debug import metrics

    timer = StepTimer()
    register_optimizer_step_post_hook(lambda *_: timer.optimizer_stepped())
    native = torch_xla._XLAC
    marker = native._xla_step_marker

    def step_marker(*args: Any, **kwargs: Any) -> Any:
        ended = marker(*args, **kwargs)
        timer.graph_ended(time.perf_counter(), metrics.counter_value("UncachedCompile") or 0)
        return ended

    native._xla_step_marker = step_marker
    atexit.register(_at_exit, torch_xla, timer, os.getpid())


def collect(torch_xla: Any, timer: StepTimer) -> dict[str, Any]:
    """Counts are of this process since its start; times in seconds."""
    from torch_xla.debug import metrics

    def timed(name: str) -> dict[str, float]:
        count, nanoseconds = (metrics.metric_data(name) or (0, 0.0))[:2]
        return {"count": count, "seconds": round(nanoseconds / 1e9, 4)}

    fallbacks = metrics.executed_fallback_ops()
    return {
        "device": torch_xla._XLAC._xla_get_devices(),
        "torch_xla": torch_xla.__version__,
        "CompileTime": timed("CompileTime"),
        "UncachedCompile": metrics.counter_value("UncachedCompile") or 0,
        "CachedCompile": metrics.counter_value("CachedCompile") or 0,
        "cache": compile_cache.figures(),
        "ExecuteTime": timed("ExecuteTime"),
        "optimizer_steps": timer.optimizer_steps,
        "step_p50_ms": timer.median_ms(),
        "fallback_ops": {name: metrics.counter_value(name) or 0 for name in fallbacks},
    }


def _at_exit(torch_xla: Any, timer: StepTimer, owner: int) -> None:
    """After the script's end a report may fail in any way at all; the job's result must not depend on it."""
    if os.getpid() != owner or not torch_xla._XLAC._xla_runtime_is_initialized():
        return
    try:
        print(PREFIX + json.dumps(collect(torch_xla, timer), separators=(",", ":")), flush=True)
        _save_metrics_file()
    except Exception as error:
        say(f"the compiler report could not be made: {error!r}")


def _save_metrics_file() -> None:
    """torch_xla appends to XLA_METRICS_FILE at each sync; a script that never syncs would leave none."""
    if os.environ.get("XLA_METRICS_FILE"):
        from torch_xla.debug import metrics_saver

        metrics_saver.save_metrics()
