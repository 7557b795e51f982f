"""Notes where the script, or a library that it uses, ends a graph."""

from collections.abc import Callable
from typing import Any

from sagelet_runtime.dynamo import xla
from sagelet_runtime.reporting.counters import Counters
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.untraced import untraced

#: Functions that run what is pending: `_xla_step_marker` at the end of a step, the others in between.
_SYNCS = ("_xla_sync_live_tensors", "_xla_sync_multi")


def install(torch_xla: Any, counters: Counters, recorder: Recorder) -> None:
    native = torch_xla._XLAC
    native._xla_step_marker = _marker(native._xla_step_marker, counters, recorder)
    for name in _SYNCS:
        setattr(native, name, _counted(getattr(native, name), counters, recorder))
    _opened(native, recorder)


def _marker(original: Callable[..., Any], counters: Counters, recorder: Recorder) -> Callable[..., Any]:
    counted = _counted(original, counters, recorder)

    @untraced
    def step_marker(*args: Any, **kwargs: Any) -> Any:
        ended = counted(*args, **kwargs)
        if not xla.is_extracting():
            recorder.steps.graph_ended(counters.compiled())
        return ended

    return step_marker


def _counted(original: Callable[..., Any], counters: Counters, recorder: Recorder) -> Callable[..., Any]:
    @untraced
    def sync(*args: Any, **kwargs: Any) -> Any:
        recorder.steps.broken(counters.dispatched())
        ended = original(*args, **kwargs)
        recorder.steps.graphs = counters.dispatched()
        return ended

    return sync


def _opened(native: Any, recorder: Recorder) -> None:
    original = native._xla_get_default_device

    @untraced
    def first_use() -> Any:
        device = original()
        if native._xla_get_default_device is first_use:
            native._xla_get_default_device = original
        recorder.use()
        recorder.steps.about_to_begin()
        return device

    native._xla_get_default_device = first_use
