"""Instance metrics: what a host takes of the machine, once a minute, in the units of AWS's table.

(AWS: "Monitor Amazon SageMaker with Amazon CloudWatch", jobs and endpoint metrics.) CPUUtilization is the sum over
cores: 100 is one busy core, whatever the instance type; the most is 100 x the cores of this machine. MemoryUtilization
is the share of this machine's memory, or of the host's own limit. DiskUtilization is the share of VolumeSizeInGB that
/opt/ml takes. The GPU metrics are sums over the host's GPUs. CPU is the mean over the minute, GPU the mean of
some looks, memory and disk are the last look.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import RuntimeUnavailable, is_known
from sagelet_engine.base.volume import Volume
from sagelet_engine.instances.gpu_gauge import GpuGauge
from sagelet_engine.model.runtime import Handle, Runtime, Usage
from sagelet_engine.model.sinks import MetricPoint

log = logging.getLogger(__name__)

MINUTE_MS = 60_000
#: Seconds between looks at a host; the last value repeats. The first are short so that a job of seconds is seen.
LOOKS = (0.2, 0.8, 2.0, 3.0, 4.0, 10.0)

#: Points that wait for the store.
MOST_UNSENT = 10_000

Publish = Callable[[list[MetricPoint]], None]


@dataclass
class Gauges:
    """Readings of one host besides its Usage."""

    handle: Handle
    volume: Volume
    gpus: GpuGauge


@dataclass
class _Minute:
    """The measurements since the last point."""

    #: The start of the interval for CPU time, ms since the epoch.
    start_ms: int
    start_cpu: float
    last_ms: int = 0
    last: Usage | None = None
    gpu_looks: list[tuple[float, float]] = field(default_factory=list)


class HostMeter:
    """Collects looks at one host and makes points of them."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges
        self._minute: _Minute | None = None

    @property
    def handle(self) -> Handle:
        return self._gauges.handle

    @property
    def complete(self) -> bool:
        """True if a minute has passed since the last points."""
        return self._minute is not None and self._minute.last_ms - self._minute.start_ms >= MINUTE_MS

    def look(self, now_ms: int, usage: Usage) -> None:
        """Takes in one look. If the host's processes have ended, its memory is that of the look before."""
        minute = self._minute
        if not usage.memory_bytes:
            if minute is None or minute.last is None:
                return
            usage = replace(usage, memory_bytes=minute.last.memory_bytes)
        if minute is None or now_ms < minute.start_ms:  # The machine's clock was set back.
            minute = self._minute = self._first(now_ms, usage)
        minute.last_ms, minute.last = now_ms, usage
        if (gpu := self._gauges.gpus.read()) is not None:
            minute.gpu_looks.append(gpu)

    @property
    def fault(self) -> str:
        """Why a part of the metrics is left out from now on. Empty if none is."""
        return self._gauges.gpus.fault

    def points(self) -> list[MetricPoint]:
        """Returns the points since the last call. Empty if nothing was measured."""
        minute = self._minute
        if minute is None or minute.last is None or minute.last_ms == minute.start_ms:
            return []
        usage = minute.last
        values = {
            "CPUUtilization": 100_000.0
            * max(0.0, usage.cpu_seconds - minute.start_cpu)
            / (minute.last_ms - minute.start_ms),
            "MemoryUtilization": 100.0 * usage.memory_bytes / usage.memory_limit_bytes,
            "DiskUtilization": self._gauges.volume.percent(),
        }
        if minute.gpu_looks:
            busy, memory = zip(*minute.gpu_looks, strict=True)
            values["GPUUtilization"] = sum(busy) / len(busy)
            values["GPUMemoryUtilization"] = sum(memory) / len(memory)
        self._minute = _Minute(minute.last_ms, usage.cpu_seconds)
        return [MetricPoint(name, value, minute.last_ms, self.handle.host) for name, value in sorted(values.items())]

    def _first(self, now_ms: int, usage: Usage) -> _Minute:
        """Begins to count: at a young host's start, or now for a host that an earlier server started."""
        if 0 <= now_ms - self.handle.started_ms < MINUTE_MS:
            return _Minute(self.handle.started_ms, 0.0)
        return _Minute(now_ms, usage.cpu_seconds)


class UsageSampler(threading.Thread):
    """Looks at the hosts of one job while they are watched. It never fails the job: a look that fails is left out.

    Points that cannot be stored for now are stored with the next ones.
    """

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        hosts: Sequence[Gauges],
        publish: Publish,
        closing: threading.Event,
        note: Callable[[str, str], None],
    ) -> None:
        """`closing` is set when the server goes down. Then nothing more is written. `note` takes a host's name and a
        line for its log.
        """
        super().__init__(name="usage", daemon=True)
        self._runtime = runtime
        self._clock = clock
        self._meters = [HostMeter(gauges) for gauges in hosts]
        self._publish = publish
        self._closing = closing
        self._ended = threading.Event()
        #: Held while points are made and written. Never held while a runtime is asked, which may take a second.
        self._guard = threading.Lock()
        self._broken = False
        self._note = note
        #: Points that could not be stored yet.
        self._unsent: list[MetricPoint] = []

    def stop(self) -> None:
        """Writes the rest of the last minute when the hosts are down, or left alone. Nothing is written afterwards."""
        with self._guard:
            self._ended.set()
            for meter in self._meters:
                self._guarded(meter, self._report)
            if self._unsent:
                self._note("", f"sagelet: warning: {len(self._unsent)} points of instance metrics could not be stored")

    def run(self) -> None:
        looks = iter(LOOKS)
        pause = next(looks)
        while not self._ended.wait(pause) and not self._closing.is_set():
            for meter in self._meters:
                self._guarded(meter, self._look)
            pause = next(looks, LOOKS[-1])

    def _look(self, meter: HostMeter) -> None:
        usage = self._runtime.usage(meter.handle)
        with self._guard:
            if usage is None or self._ended.is_set():
                return
            meter.look(self._clock.now_ms(), usage)
            if meter.fault:
                self._note(meter.handle.host, f"sagelet: warning: GPU metrics are left out: {meter.fault}")
            if meter.complete:
                self._report(meter)

    def _report(self, meter: HostMeter) -> None:
        if self._closing.is_set():
            return
        self._unsent = [*self._unsent, *meter.points()][-MOST_UNSENT:]
        if self._unsent:
            self._publish(self._unsent)
            self._unsent = []

    def _guarded(self, meter: HostMeter, work: Callable[[HostMeter], None]) -> None:
        try:
            work(meter)
        except (RuntimeUnavailable, StoreUnavailable) as error:
            # CPU time is a sum, so the next look has all of it. The points wait.
            log.warning("instance metrics come later: %s", error)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            self._note(meter.handle.host, f"sagelet: warning: instance metrics have a gap: {why}")
            if not self._broken:  # Once for each job: a lasting fault must not fill the log.
                log.error("instance metrics could not be read: %s", error, exc_info=not is_known(error))
            self._broken = True
