"""Holds everything that is counted in this process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.reporting import idling
from sagelet_runtime.reporting.collectives import Exchanges
from sagelet_runtime.reporting.crowding import cpu_times
from sagelet_runtime.reporting.device_clock import DeviceClock, ScriptClock
from sagelet_runtime.reporting.places import Places
from sagelet_runtime.reporting.steps import Steps
from sagelet_runtime.reporting.timeline import Busy, Timeline
from sagelet_runtime.reporting.waits import DeviceWaits

#: Different shapes of batches kept, at most.
MOST_SHAPES = 256


class Reading(threading.local):
    #: True within a call that is counted. `__repr__` calls `cpu`, too, and is one evaluation.
    inside = False


class Recorder:
    """Counts. Another thread may call `document` meanwhile."""

    def __init__(
        self,
        started_ms: int,
        in_use: Callable[[], None] | None = None,
        clock: Callable[[], DeviceClock] = ScriptClock,
    ) -> None:
        """`in_use` is called once in a process that trains, or that opens a device to train.

        `clock` makes the clock of the device.
        """
        self.started_ms = started_ms
        self._in_use = in_use
        self._clock = clock
        #: Seconds of compiling and of executing so far, in a worker that compiles.
        self.busy: Busy = lambda: (0.0, 0.0)
        #: Seconds of compiling so far, cheap enough for each step.
        self.compile_seconds: Callable[[], float] = lambda: 0.0
        #: Seconds so far in which values were copied from a device that runs beside the script.
        self.reading_seconds: Callable[[], float] = lambda: 0.0
        self.reading = Reading()
        self._begin()

    def _begin(self) -> None:
        self.pid = os.getpid()
        #: True if this process is a fork of the one that was counted, and has not trained yet.
        self.inherited = False
        self._used = False
        self.exchanges = Exchanges()
        timeline = Timeline(lambda: self.busy(), lambda: self.waits.seconds, lambda: self.waits.others())
        self.steps = Steps(
            self.exchanges.seconds,
            timeline,
            self._clock(),
            lambda: self.compile_seconds(),
            lambda: self.waits.seconds,
        )
        self.waits = DeviceWaits(self.steps.intervals, lambda: self.compile_seconds(), lambda: self.reading_seconds())
        self.evaluations = Places(lambda: self.steps.optimizer_steps)
        self.saves = Places()
        self.cuda_requests = Places()
        self.shapes: dict[tuple[int, ...], int] = {}
        self.optimizers: list[JsonObject] = []
        #: The optimizers' parameters by the kind of their device.
        self.parameters = {"cpu": 0, "xla": 0, "other": 0}

    def forked(self) -> None:
        """Called in a new child process. A data loader's worker reports nothing. A training process counts from 0."""
        self._begin()
        self.inherited = True
        self.started_ms = time.time_ns() // 1_000_000

    def use(self) -> None:
        """Notes that this process trains, or is about to."""
        self.inherited = False
        if not self._used:
            self._used = True
            idling.trains(lambda: self.steps.steps + self.steps.optimizer_steps)
            if self._in_use is not None:
                self._in_use()

    def failed(self, error: Exception) -> None:
        """Prints once what went wrong. The script goes on."""
        say_once(f"the compile report is incomplete: {error!r}")

    def trained_on(self, shape: tuple[int, ...]) -> None:
        """Counts a batch whose first tensor has this shape."""
        if shape in self.shapes or len(self.shapes) < MOST_SHAPES:
            self.shapes[shape] = self.shapes.get(shape, 0) + 1
        self.steps.samples += shape[0] if shape else 0

    def document(self) -> JsonObject:
        shapes = sorted(self.shapes.copy().items(), key=lambda item: -item[1])
        first_ms = self.steps.first_ended_ms
        return {
            **self.steps.document(),
            **cpu_times(),
            "timeline": self.steps.timeline.document(self.started_ms),
            "time_to_first_step_seconds": (first_ms - self.started_ms) / 1000 if first_ms else 0.0,
            "batch_shapes": [{"shape": list(shape), "count": count} for shape, count in shapes],
            "evaluations": self.evaluations.listed(),
            "device_wait_seconds": round(self.waits.all_seconds(), 6),
            "waits": self.waits.listed(),
            "saves": self.saves.listed(),
            "optimizers": list(self.optimizers),
            "devices": {
                "cpu_params": self.parameters["cpu"],
                "xla_params": self.parameters["xla"],
                "cuda_requests": self.cuda_requests.listed(),
            },
        }
