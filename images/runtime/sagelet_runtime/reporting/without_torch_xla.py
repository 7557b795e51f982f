"""Makes the report of a worker of a compiled job until its script imports torch_xla: what trains without it is native.

It counts optimizer steps and their time, and wraps nothing else. It ends with the import of torch_xla, after which
`compiled.py` counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sagelet_runtime.base import import_hook
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.reporting import memory, stepping
from sagelet_runtime.reporting.device_clock import TorchClock
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.writer import DIRECTORY, Writer

#: Why such a worker is not compiled.
REASON = "the script did not import torch_xla"
_ends: list[Callable[[], None]] = []


def install(torch: Any) -> None:
    """Begins to count. Does nothing if SAGELET_REPORT_DIR is not set."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    recorder = Recorder(import_hook.STARTED_MS, clock=lambda: TorchClock(torch))
    counting = True

    def document() -> JsonObject | None:
        """Returns the report, or None in a process that does not train, or that has imported torch_xla since."""
        if not counting or not recorder.steps.optimizer_steps:
            return None
        return {
            **recorder.document(),
            "compiled": False,
            "not_compiled": REASON,
            "torch": torch.__version__,
            "memory": memory.of_native(torch),
        }

    writer = Writer(Path(directory), recorder, document)

    def after() -> None:
        recorder.steps.step_ended()
        writer.write_if_due()

    remove = stepping.install(recorder, after)

    def end() -> None:
        nonlocal counting
        counting = False
        remove()

    _ends.append(end)
    writer.install()


def end() -> None:
    """Counts no more in this process."""
    while _ends:
        _ends.pop()()
