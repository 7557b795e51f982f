"""When the device was done with a step. XLA and CUDA run programs beside the script, whose clock sees only dispatch.

A clock gives a mark at the end of each step, and says later when the device was done with all that came before it.
`Guarded` is between each clock and the script, which no clock may end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from sagelet_runtime.base.say import say_once

#: The answer about a mark of which no clock will ever know the time.
NEVER = 0.0
#: Seconds, at most, for the device to get done at the end of the process, and between two looks.
TIMEOUT_S, POLL_S = 10.0, 0.005


class DeviceClock(Protocol):
    @property
    def source(self) -> str:
        """Returns how the clock knows: `device`, `waits` or `script`."""

    def mark(self) -> Any:
        """Returns what identifies this moment. Called by the thread that trains."""

    def done_at(self, mark: Any) -> float | None:
        """Returns when the device was done, by time.perf_counter. None: not yet. NEVER: this will not be known."""

    def finish(self, known: Callable[[], bool]) -> None:
        """Waits for the device at the end of the process, TIMEOUT_S at most. `known`: nothing is left to wait for."""


class Guarded:
    """A clock whose failures are said once, and cost the times of the steps that it fails for."""

    def __init__(self, clock: DeviceClock) -> None:
        self.clock = clock

    @property
    def source(self) -> str:
        return self.clock.source

    def mark(self) -> Any:
        try:
            return self.clock.mark()
        except Exception as error:
            self._failed(error)
            return self

    def done_at(self, mark: Any) -> float | None:
        try:
            return NEVER if mark is self else self.clock.done_at(mark)
        except Exception as error:
            self._failed(error)
            return NEVER

    def finish(self, known: Callable[[], bool]) -> None:
        self.clock.finish(known)

    def _failed(self, error: Exception) -> None:
        say_once(f"the device does not say when it was done with some steps: {type(error).__name__}")


class ScriptClock:
    """The clock of what computes within its calls: a call of PyTorch on CPUs returns when its result is there."""

    source = "script"

    def mark(self) -> Any:
        return time.perf_counter()

    def done_at(self, mark: Any) -> float | None:
        at: float = mark
        return at

    def finish(self, known: Callable[[], bool]) -> None:
        pass


class WaitClock:
    """The clock of torch_xla's own client, which does not say when programs end: it knows where the script waited."""

    source = "waits"

    def __init__(self, wait: Callable[[], object]) -> None:
        """`wait` returns when the device is done, and calls `waited`."""
        self._wait = wait
        self._steps = 0
        #: The number of the last step's end whose time is known, and such times until they are asked for.
        self._last = 0
        self._done: dict[int, float] = {}

    def mark(self) -> Any:
        self._steps += 1
        return self._steps

    def done_at(self, mark: Any) -> float | None:
        return None if mark > self._last else self._done.pop(mark, NEVER)

    def waited(self) -> None:
        """Notes that the script has just waited for the device."""
        if self._steps > self._last:
            self._done[self._steps] = time.perf_counter()
            self._last = self._steps

    def finish(self, known: Callable[[], bool]) -> None:
        if not known():
            thread = threading.Thread(target=self._wait, daemon=True)
            thread.start()
            thread.join(TIMEOUT_S)


class _Polled:
    def finish(self, known: Callable[[], bool]) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not known() and time.monotonic() < end:
            time.sleep(POLL_S)


class ExecutionClock(_Polled):
    """The clock of a PJRT plugin: the library before it sees each program's end."""

    source = "device"

    def __init__(self, executions: Any) -> None:
        self._executions = executions

    def mark(self) -> Any:
        return self._executions.dispatched()

    def done_at(self, mark: Any) -> float | None:
        at: float | None = self._executions.done_at(mark)
        return at


class TorchClock(_Polled):
    """The clock of PyTorch without XLA. On CPUs a call returns when its result is there, also one of Inductor.

    On a GPU CUDA's events tell. The first mark of each GPU waits for it, once; the others wait for nothing. While a
    CUDA graph is captured nothing runs, and an event would become a part of the graph: no time will be known.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        #: The first event of each GPU, and when it was done. Events of two GPUs cannot be compared.
        self._first: dict[int, tuple[Any, float]] = {}

    @property
    def source(self) -> str:
        return "device" if self._first else "script"

    def mark(self) -> Any:
        cuda = self._torch.cuda
        # Asking whether there is a GPU would initialize CUDA, which a script may want to do after a fork.
        if not cuda.is_initialized():
            return time.perf_counter()
        if cuda.is_current_stream_capturing():
            return NEVER
        event, device = cuda.Event(enable_timing=True), cuda.current_device()
        event.record()
        if device not in self._first:
            event.synchronize()
            self._first[device] = event, time.perf_counter()
        return device, event

    def done_at(self, mark: Any) -> float | None:
        if isinstance(mark, float):
            return mark
        device, event = mark
        if not event.query():
            return None
        first, at = self._first[device]
        return float(at + first.elapsed_time(event) / 1000)
