"""Makes the report of a worker that trains without XLA: natively, or compiled by Inductor.

It counts the steps of optimizers. It wraps no tensors, and starts no thread beside that of `idling.py`, which every
process has.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sagelet_runtime.base import import_hook
from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.base.variables import INDUCTOR
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.dynamo import modules
from sagelet_runtime.dynamo.compilations import CALLBACKS
from sagelet_runtime.inductor.counters import OUTPUT, Counters
from sagelet_runtime.reporting import inputs, memory, saves, stepping
from sagelet_runtime.reporting.device_clock import TorchClock
from sagelet_runtime.reporting.inputs import Batches
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.writer import DIRECTORY, Writer

#: Why a worker of a job for Inductor is not compiled.
NOTHING_RAN = "the script called no module that Inductor has compiled"


def install(torch: Any) -> None:
    """Begins to count. Does nothing if SAGELET_REPORT_DIR is not set."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    recorder = Recorder(import_hook.STARTED_MS, clock=lambda: TorchClock(torch))
    batches = Batches(recorder, torch.Tensor)
    counters = _counters(recorder)

    def document() -> JsonObject | None:
        """Returns the report, or None in a process that does not train."""
        if not recorder.steps.optimizer_steps:
            return None
        known = {"compiled": False, "torch": torch.__version__, "memory": memory.of_native(torch)}
        if counters is not None:
            platform = "CUDA" if torch.cuda.is_available() else "CPU"
            known |= {"compiled": counters.executions > 0, "compiler": "inductor", "platform": platform}
            known |= counters.document() | ({} if counters.executions else {"not_compiled": NOTHING_RAN})
        return {**recorder.document(), **known}

    @untraced
    def called() -> None:
        # An evaluation has no gradients, and no step begins with it.
        if torch.is_grad_enabled():
            recorder.steps.begins_at_latest()

    writer = Writer(Path(directory), recorder, document)

    def after() -> None:
        batches.used()
        recorder.steps.step_ended(0 if counters is None else counters.compiles)
        writer.write_if_due()

    if counters is not None:
        modules.observe(called)
    inputs.install(torch, batches)
    saves.install(torch, recorder)
    stepping.install(recorder, after)
    writer.install()


def _counters(recorder: Recorder) -> Counters | None:
    """Returns the counters of Inductor, or None in a native job."""
    if INDUCTOR not in os.environ:
        return None
    counters = Counters()
    recorder.busy, recorder.compile_seconds = counters.busy, lambda: counters.seconds
    import_hook.after(CALLBACKS, counters.install_callbacks)
    import_hook.after(OUTPUT, counters.install_graphs)
    return counters
