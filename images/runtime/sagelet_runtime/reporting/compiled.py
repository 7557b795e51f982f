"""Makes the report of a worker that trains on an XLA device."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sagelet_runtime.base import import_hook
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.dynamo import xla as tracing
from sagelet_runtime.reporting import evaluations, graphs, inputs, memory, saves, stepping, without_torch_xla
from sagelet_runtime.reporting.counters import Counters
from sagelet_runtime.reporting.device_clock import ExecutionClock, WaitClock
from sagelet_runtime.reporting.inputs import Batches
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.writer import DIRECTORY, Periodic, Writer


def install(torch_xla: Any) -> None:
    """Begins to count. Does nothing if SAGELET_REPORT_DIR is not set."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    import torch

    without_torch_xla.end()
    counters, native = Counters(torch_xla), torch_xla._XLAC
    recorder = Recorder(
        import_hook.STARTED_MS,
        lambda: Periodic(writer, worker.look).start(),
        lambda: (
            ExecutionClock(counters.executions)
            if counters.executions
            else WaitClock(lambda: native._xla_wait_device_ops([]))
        ),
    )
    recorder.busy, recorder.compile_seconds = counters.busy, counters.compile_seconds
    recorder.reading_seconds = counters.reading_seconds
    tracing.of_process.unseen = lambda: _unseen(recorder, counters)
    if counters.executions is not None:
        device = counters.executions
        tracing.of_process.clocks = lambda: (
            counters.compile_seconds(),
            device.busy_seconds(),
            recorder.steps.waited,
        )
    worker = CompiledWorker(torch_xla, torch, counters, recorder)
    writer = Writer(Path(directory), recorder, worker.document)
    batches = Batches(recorder, torch.Tensor)
    counters.install()
    graphs.install(torch_xla, counters, recorder)
    evaluations.install(torch, recorder)
    saves.install(torch, recorder)
    inputs.install(torch, batches)
    inputs.install_parallel(batches)

    def stepped() -> None:
        batches.used()
        counters.step_ended()

    stepping.install(recorder, stepped)
    writer.install()


#: Why a worker that has imported torch_xla is not compiled.
NOT_ON_XLA = "the script's parameters were not on the XLA device"


@contextlib.contextmanager
def _unseen(recorder: Recorder, counters: Counters) -> Iterator[None]:
    """Counts no read and no break of a graph meanwhile. They are sagelet's own."""
    steps, reading = recorder.steps, recorder.reading
    steps.broken(counters.dispatched())
    breaks, was_inside = steps.breaks, reading.inside
    reading.inside = True
    try:
        yield
    finally:
        reading.inside = was_inside
        steps.breaks, steps.graphs = breaks, counters.dispatched()


class CompiledWorker:
    """The report of this process."""

    def __init__(self, torch_xla: Any, torch: Any, counters: Counters, recorder: Recorder) -> None:
        self._torch = torch
        self._native = torch_xla._XLAC
        self._counters = counters
        self._recorder = recorder
        self._versions = {"torch": torch.__version__, "torch_xla": torch_xla.__version__}
        self._compiling_since_ms = 0

    def look(self) -> None:
        """Notices when a compilation begins or ends."""
        if not self._counters.compiling:
            self._compiling_since_ms = 0
        elif not self._compiling_since_ms:
            self._compiling_since_ms = time.time_ns() // 1_000_000

    def document(self) -> JsonObject | None:
        """Returns the report, or None in a process that has not used XLA, such as a launcher or a tool."""
        opened = self._native._xla_runtime_is_initialized()
        if self._is_native(opened=opened):
            return self._native_document()
        if not opened:
            return None
        self.look()
        steps = self._recorder.steps
        breaks = steps.breaks + max(0, self._counters.dispatched() - steps.graphs)
        platform = self._counters.platform()
        return {
            "compiled": True,
            "platform": platform,
            "client": self._counters.client(),
            **self._versions,
            "compiling_since_ms": self._compiling_since_ms,
            **self._recorder.document(),
            **self._counters.document(breaks, steps.breaks_per_step(breaks)),
            "memory": memory.of_xla_device(platform),
            "collectives": self._recorder.exchanges.document(steps.intervals.exchange_share()),
        }

    def _is_native(self, *, opened: bool) -> bool:
        """True if optimizers have stepped, no parameter of theirs is on the XLA device, and no program ran for a step.

        A script may open the device and train elsewhere: libraries open it only to see whether there is one.
        """
        steps = self._recorder.steps.optimizer_steps
        if not steps or self._recorder.parameters["xla"]:
            return False
        return not opened or self._counters.executed() < steps

    def _native_document(self) -> JsonObject:
        return {
            "compiled": False,
            "not_compiled": NOT_ON_XLA,
            **self._versions,
            **self._recorder.document(),
            "memory": memory.of_native(self._torch),
        }
