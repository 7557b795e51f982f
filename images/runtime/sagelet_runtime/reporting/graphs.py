"""Notes where the script, or a library that it uses, ends a graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.reporting.counters import Counters
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.waits import LEAST

#: Functions that run what is pending: `_xla_step_marker` at the end of a step, the others in between.
_SYNCS = ("_xla_sync_live_tensors", "_xla_sync_multi")
_STEP, _WAIT = "_xla_step_marker", "_xla_wait_device_ops"
#: What people call these functions.
_CALLS = {_STEP: "sync", _WAIT: "wait_device_ops"}
#: Packages in which the calls of a script end.
_OURS = ("torch_xla", "sagelet_runtime")


def install(torch_xla: Any, counters: Counters, recorder: Recorder) -> None:
    native = torch_xla._XLAC
    native._xla_step_marker = _marker(native._xla_step_marker, counters, recorder)
    native._xla_get_cpu_tensors = _copied(native._xla_get_cpu_tensors, recorder)
    native._xla_wait_device_ops = _waiting(native._xla_wait_device_ops, recorder)
    for name in _SYNCS:
        setattr(native, name, _counted(getattr(native, name), "sync", counters, recorder))
    _opened(native, recorder)


def _marker(original: Callable[..., Any], counters: Counters, recorder: Recorder) -> Callable[..., Any]:
    counted = _counted(original, _CALLS[_STEP], counters, recorder)

    @untraced
    def step_marker(*args: Any, **kwargs: Any) -> Any:
        ended = counted(*args, **kwargs)
        recorder.steps.graph_ended(counters.compiled())
        return ended

    return step_marker


def _counted(original: Callable[..., Any], call: str, counters: Counters, recorder: Recorder) -> Callable[..., Any]:
    @untraced
    def sync(*args: Any, **kwargs: Any) -> Any:
        recorder.steps.broken(counters.dispatched())
        began = recorder.waits.begin()
        ended = original(*args, **kwargs)
        recorder.steps.graphs = counters.dispatched()
        seconds = recorder.waits.spent(began)
        if seconds >= LEAST:
            # torch_xla holds a step back while the queue of the device is full; the rest of the call is tracing. With
            # wait=True, too: it waits until the programs are in the queue, and not for the device.
            held = min(seconds, counters.held_seconds())
            recorder.waits.add(call, sys._getframe(1), held, to_the_end=False)
        return ended

    return sync


def _waiting(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @untraced
    def wait(*args: Any, **kwargs: Any) -> Any:
        began = recorder.waits.begin()
        ended = original(*args, **kwargs)
        recorder.waits.add(_CALLS[_WAIT], sys._getframe(1), recorder.waits.spent(began), to_the_end=True)
        return ended

    return wait


def _copied(original: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    """Notes `xm.mesh_reduce`, `xm.save` and all else that copies tensors of the device at once."""

    @untraced
    def get_cpu_tensors(*args: Any, **kwargs: Any) -> Any:
        if recorder.reading.inside:
            return original(*args, **kwargs)
        began = recorder.waits.begin()
        copies = original(*args, **kwargs)
        call, frame = _outermost(sys._getframe(1))
        recorder.waits.read(call, frame, recorder.waits.spent(began))
        return copies

    return get_cpu_tensors


def _outermost(frame: FrameType | None) -> tuple[str, FrameType | None]:
    """Returns the function of torch_xla, or of sagelet's in its place, that a script or another library has called."""
    name = ""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        name, frame = frame.f_code.co_name, frame.f_back
    return name, frame


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
