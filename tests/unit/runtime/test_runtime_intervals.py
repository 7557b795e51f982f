"""The time of a step: between two moments at which the device was done, whatever the script's clock saw."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sagelet_runtime.reporting import device_clock, steps
from sagelet_runtime.reporting.device_clock import NEVER, ExecutionClock, ScriptClock, TorchClock, WaitClock
from sagelet_runtime.reporting.intervals import FEWEST_STEPS, MOST_PENDING, Intervals, StepEnd
from sagelet_runtime.reporting.recorder import Recorder


class Device:
    """Executions that end when the test says so."""

    def __init__(self) -> None:
        self.count = 0
        self.ends: dict[int, float] = {}

    def dispatched(self) -> int:
        return self.count

    def done_at(self, count: int) -> float | None:
        return self.ends.get(count)


def run(device: Device, intervals: Intervals, *ends: float, **facts: Any) -> None:
    """Dispatches a program a step, all at once, and lets them end at these times."""
    for end in ends:
        device.count += 1
        device.ends[device.count] = end
        intervals.step_ended(StepEnd(device.count, device.count, rows=4 * device.count, **facts))


def test_a_script_that_does_not_wait_is_measured_by_its_device() -> None:
    device = Device()
    intervals = Intervals(ExecutionClock(device))
    run(device, intervals, 10.0, 12.0, 14.0, 18.0)
    found = intervals.document()
    assert found["steady_step_seconds"] == pytest.approx(8 / 3, abs=1e-6)
    times = {"p5": 2.0, "p50": 2.0, "p95": 4.0, "count": 3, "steps": 3, "clock": "device", "quarters": []}
    assert found["step_seconds"] == times
    assert found["samples_per_second"] == 1.5


def test_a_step_that_the_device_is_not_done_with_counts_later() -> None:
    device = Device()
    intervals = Intervals(ExecutionClock(device))
    run(device, intervals, 10.0, 12.0)
    device.count += 1
    intervals.step_ended(StepEnd(3, 3))
    assert intervals.document()["step_seconds"]["steps"] == 1
    device.ends[3] = 16.0
    assert intervals.document()["steady_step_seconds"] == 3.0


def test_compiling_evaluating_and_saving_belong_to_no_steady_step() -> None:
    device = Device()
    intervals = Intervals(ExecutionClock(device))
    run(device, intervals, 10.0, 11.0)
    run(device, intervals, 30.0, 31.0, compiles=1, compile_seconds=19.0)
    run(device, intervals, 90.0, 91.0, compiles=1, compile_seconds=19.0, interruptions=5)
    assert intervals.document()["steady_step_seconds"] == 1.0
    assert intervals.document()["step_seconds"]["count"] == 3


def test_a_time_that_nobody_knows_joins_its_steps_to_the_next_ones() -> None:
    device = Device()
    intervals = Intervals(ExecutionClock(device))
    run(device, intervals, 10.0, NEVER, NEVER, 16.0)
    found = intervals.document()
    assert (found["steady_step_seconds"], found["step_seconds"]["count"], found["step_seconds"]["steps"]) == (2.0, 1, 3)


def dispatched(device: Device, intervals: Intervals, *ends: tuple[float, float, float]) -> None:
    """Each step: when the script had dispatched it, for how long it had waited until then, when the device was done."""
    for at, held, end in ends:
        device.count += 1
        device.ends[device.count] = end
        intervals.step_ended(StepEnd(device.count, device.count, at=at, held=held, rows=device.count))


def test_a_device_that_catches_up_is_no_faster_than_the_script() -> None:
    """The first program takes 9.5 s, and the queue behind it 0.1 s a step. The script takes 1 s for each."""
    device = Device()
    intervals = Intervals(ExecutionClock(device))
    dispatched(device, intervals, *((float(step), 0.0, 9.5 + step / 10) for step in range(1, 11)))
    found = intervals.document()
    assert (found["steady_step_seconds"], found["samples_per_second"]) == (1.0, 1.0)
    assert (found["step_seconds"]["p5"], found["step_seconds"]["clock"]) == (1.0, "script")
    assert found["step_seconds"]["steps"] == 8


def test_waiting_for_a_long_program_is_not_the_script_s_own_time() -> None:
    """The script waits for 30 s at its second step, in a call that is noted or not. The device takes 0.5 s a step."""
    for held in (30.0, 0.0):
        device = Device()
        intervals = Intervals(ExecutionClock(device))
        late = ((30.0 + step / 10, held, 30.0 + step / 2) for step in range(2, 12))
        dispatched(device, intervals, (0.1, 0.0, 30.5), *late)
        found = intervals.document()
        assert (found["steady_step_seconds"], found["step_seconds"]["clock"]) == (0.5, "device")


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(device_clock.time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def take(clock: Clock, intervals: Intervals, count: int, start: int = 0, **facts: Any) -> None:
    for step in range(start + 1, start + count + 1):
        clock.now += 0.001
        intervals.step_ended(StepEnd(intervals.mark(), step, **facts))


def test_without_events_of_the_device_the_script_s_waits_are_the_ends(clock: Clock) -> None:
    """torch_xla's own client: the script takes 1 ms a step, and the device 2 s for ten of them."""
    waits = WaitClock(lambda: None)
    intervals = Intervals(waits)
    for start in (0, 10, 20):
        take(clock, intervals, 10, start)
        clock.now += 2.0
        waits.waited()
        waits.waited()  # Another value of the same step.
    found = intervals.document()
    assert found["steady_step_seconds"] == pytest.approx(0.201)
    assert found["step_seconds"]["clock"] == "waits"
    assert (found["step_seconds"]["count"], found["step_seconds"]["steps"]) == (2, 20)


def test_a_script_that_hardly_waits_leaves_out_what_compiling_took(clock: Clock) -> None:
    waits = WaitClock(lambda: None)
    intervals = Intervals(waits)
    take(clock, intervals, 1, compiles=1, compile_seconds=5.0)
    waits.waited()
    began = clock.now
    take(clock, intervals, FEWEST_STEPS, 1, compiles=2, compile_seconds=8.0)
    clock.now = began + 3.0 + 20.0
    waits.waited()
    assert intervals.document()["steady_step_seconds"] == pytest.approx(20.0 / FEWEST_STEPS)


@pytest.mark.parametrize("pending", [0, 3])
def test_at_the_end_the_process_waits_for_steps_that_are_not_done(clock: Clock, pending: int) -> None:
    waited: list[str] = []

    def wait() -> None:
        waited.append(threading.current_thread().name)
        waits.waited()

    waits = WaitClock(wait)
    intervals = Intervals(waits)
    take(clock, intervals, pending)
    intervals.finish()
    assert len(waited) == bool(pending)
    assert threading.main_thread().name not in waited


class Event:
    def __init__(self, cuda: "Cuda") -> None:
        self._cuda, self.at, self.device, self.captured = cuda, 0.0, 0, False

    def record(self) -> None:
        self.at, self.device, self.captured = self._cuda.now, self._cuda.device, self._cuda.capturing

    def synchronize(self) -> None:
        if self._cuda.capturing:
            raise RuntimeError("operation not permitted when stream is capturing")
        self._cuda.synchronized += 1

    def query(self) -> bool:
        if self.captured:
            raise RuntimeError("operation not permitted on an event last recorded in a capturing stream")
        return self.at <= self._cuda.done

    def elapsed_time(self, later: "Event") -> float:
        if later.device != self.device:
            raise RuntimeError("invalid resource handle")
        return (later.at - self.at) * 1000


class Cuda:
    """torch.cuda: events with the device's time, which is behind the script's."""

    def __init__(self, *, initialized: bool) -> None:
        self.now = self.done = 0.0
        self.synchronized = self.device = 0
        self.capturing = False
        self.is_initialized = lambda: initialized
        self.is_current_stream_capturing = lambda: self.capturing
        self.current_device = lambda: self.device

    def Event(self, *, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)


class Torch:
    def __init__(self, *, initialized: bool) -> None:
        self.cuda = Cuda(initialized=initialized)


def test_cuda_is_asked_by_events_and_waited_for_once(clock: Clock) -> None:
    torch = Torch(initialized=True)
    intervals = Intervals(TorchClock(torch))
    for step in range(1, 6):
        torch.cuda.now = 2.0 * step
        intervals.step_ended(StepEnd(intervals.mark(), step))
    torch.cuda.done = 8.0
    found = intervals.document()
    assert (found["steady_step_seconds"], found["step_seconds"]["steps"]) == (2.0, 3)
    assert found["step_seconds"]["clock"] == "device"
    assert torch.cuda.synchronized == 1


@pytest.mark.parametrize("warm", [0, 2])
def test_a_graph_that_is_captured_has_no_time_and_is_not_disturbed(clock: Clock, warm: int) -> None:
    """CUDA forbids waiting while it captures (`torch.cuda.graph`), and events of a graph cannot be asked."""
    torch = Torch(initialized=True)
    intervals = Intervals(TorchClock(torch))
    for step in range(1, warm + 5):
        torch.cuda.capturing = step == warm + 1
        torch.cuda.now = torch.cuda.done = 2.0 * step
        intervals.step_ended(StepEnd(intervals.mark(), step))
    found = intervals.document()["step_seconds"]
    assert (found["p50"], found["steps"]) == (2.0, warm + 3 if warm else 2)


def test_each_gpu_has_a_clock_of_its_own(clock: Clock) -> None:
    torch = Torch(initialized=True)
    intervals = Intervals(TorchClock(torch))
    for step in range(1, 7):
        torch.cuda.device = step % 2
        clock.now = torch.cuda.now = torch.cuda.done = 2.0 * step
        intervals.step_ended(StepEnd(intervals.mark(), step))
    found = intervals.document()
    assert (found["steady_step_seconds"], found["step_seconds"]["steps"], torch.cuda.synchronized) == (2.0, 5, 2)


class BrokenClock(ScriptClock):
    """Fails at the calls that a test names."""

    def __init__(self, where: str) -> None:
        self.broken = False
        self._where = where

    def mark(self) -> Any:
        if self.broken and self._where == "mark":
            raise RuntimeError("the device was lost")
        return super().mark()

    def done_at(self, mark: Any) -> float | None:
        if self.broken and self._where == "done_at":
            raise RuntimeError("the device was lost")
        return super().done_at(mark)


@pytest.mark.parametrize("where", ["mark", "done_at"])
def test_a_clock_that_fails_costs_its_times_only(clock: Clock, where: str) -> None:
    """Neither the script's step nor the rest of the report: steps that no clock knows join the next ones."""
    broken = BrokenClock(where)
    intervals = Intervals(broken)
    for step in range(1, 7):
        broken.broken = step in (3, 4)
        clock.now += 2.0
        intervals.step_ended(StepEnd(intervals.mark(), step))
        intervals.update()
    found = intervals.document()
    assert (found["steady_step_seconds"], found["step_seconds"]["count"], found["step_seconds"]["steps"]) == (2.0, 3, 5)


def test_pytorch_on_cpus_is_done_when_its_call_returns(clock: Clock) -> None:
    intervals = Intervals(TorchClock(Torch(initialized=False)))
    take(clock, intervals, 3)
    assert intervals.document()["step_seconds"]["clock"] == "script"
    assert intervals.document()["steady_step_seconds"] == pytest.approx(0.001)


def test_a_device_that_never_gets_done_fills_no_memory() -> None:
    device = Device()
    intervals = Intervals(ExecutionClock(device))
    for number in range(3 * MOST_PENDING):
        intervals.step_ended(StepEnd(number + 1, number + 1))
    assert len(intervals._pending) == MOST_PENDING
    assert intervals.document()["steady_step_seconds"] == 0.0


def reading(recorder: Recorder, seconds: float, clock: Clock, compiled: list[float]) -> Callable[[], None]:
    began = recorder.waits.begin()
    clock.now += seconds
    compiled[0] += seconds / 4
    recorder.waits.add("item", None, recorder.waits.spent(began), to_the_end=True)
    return lambda: None


def test_waiting_is_of_the_call_that_waited_and_compiling_is_not_waiting(clock: Clock) -> None:
    recorder = Recorder(0, clock=lambda: WaitClock(lambda: None))
    compiled = [0.0]
    recorder.compile_seconds = lambda: compiled[0]
    reading(recorder, 8.0, clock, compiled)
    reading(recorder, 4.0, clock, compiled)
    document = recorder.document()
    assert document["device_wait_seconds"] == 9.0
    (entry,) = document["waits"]
    assert (entry["call"], entry["count"], entry["seconds"]) == ("item", 2, 9.0)


def test_the_last_step_ends_when_the_device_is_done_with_it(clock: Clock) -> None:
    """A script that runs ahead of its device: its training is not over when it has dispatched the last step."""
    device = Device()
    timed = steps.Steps(clock=ExecutionClock(device))
    for end in (clock.now + 20.0, clock.now + 40.0):
        device.count += 1
        device.ends[device.count] = end
        clock.now += 0.001
        timed.optimizer_steps += 1
        timed.step_ended()
    dispatched = timed.document()["last_step_ms"]
    del device.ends[2]
    ahead = steps.Steps(clock=ExecutionClock(device))
    ahead.optimizer_steps += 1
    ahead.step_ended()
    assert 39_000 < dispatched - ahead.document()["last_step_ms"] < 41_000
