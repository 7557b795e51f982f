"""Turns torch_xla's own counters and metrics into figures of the report."""

from collections.abc import Callable
from typing import Any

from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.dynamo import xla
from sagelet_runtime.gpu import compile_cache, executions
from sagelet_runtime.replay.programs import replays

_FROM_DEVICE = "TransferFromDeviceTime"


class Counters:
    """Reads counters and metrics. One that this torch_xla lacks is 0.

    Scripts clear them, and so does torch_xla for torch.compile. Their values from before are then added.
    """

    def __init__(self, torch_xla: Any) -> None:
        self._native = torch_xla._XLAC
        self._value = self._native._xla_counter_value
        #: The smallest number of unfinished compilations seen. Some ways to compile count only one of the two ends.
        self._idle = 0
        self._carried: dict[str, int] = {}
        self._carried_timed: dict[str, tuple[int, float]] = {}
        #: By operation on the CPU: its count at the end of the last step that it ran in, and the number of such steps.
        self._in_steps: dict[str, tuple[int, int]] = {}
        #: Executions on the device, or None for torch_xla's own client, which tells nobody when they end.
        self.executions = executions.of_process()
        #: The number of programs compiled when the seconds of compiling were read last, and these seconds.
        self._compile_seconds = (0, 0.0)
        #: Seconds in which the queue of the device was full, when they were read last.
        self._held = 0.0

    def install(self) -> None:
        self._native._clear_xla_counters = self._cleared_counters(self._native._clear_xla_counters)
        self._native._clear_xla_metrics = self._cleared_metrics(self._native._clear_xla_metrics)

    def dispatched(self) -> int:
        """Returns the number of graphs that ran since the counters were last cleared, newly compiled or not."""
        return (self._value("CachedCompile") or 0) + (self._value("UncachedCompile") or 0)

    def compiled(self) -> int:
        """Returns the number of programs that were compiled."""
        return self._count("CreateCompileHandles")

    def executed(self) -> int:
        """Returns the number of programs that were executed."""
        return sum(self._timed(name)[0] for name in ("ExecuteTime", "ExecuteReplicatedTime"))

    @property
    def compiling(self) -> bool:
        """True while a program is being compiled."""
        under_way = self._count("UncachedCompile") - self._timed("CompileTime")[0]
        self._idle = min(self._idle, under_way)
        return under_way > self._idle

    def compile_seconds(self) -> float:
        """Returns the seconds of compiling so far. Costs next to nothing if no program was compiled since."""
        count = self.compiled()
        if count != self._compile_seconds[0]:
            self._compile_seconds = (count, self._timed("CompileTime")[1])
        return self._compile_seconds[1]

    def step_ended(self) -> None:
        """Notes which operations ran on the CPU in a step. An evaluation between two steps is in one of them."""
        for name in self._native._get_executed_fallback_ops():
            count, (before, steps) = self._count(name), self._in_steps.get(name, (0, 0))
            if count > before:
                self._in_steps[name] = (count, steps + 1)

    def held_seconds(self) -> float:
        """Returns the seconds, since the last call, in which torch_xla waited for the device to take a program."""
        before, self._held = self._held, self._timed("DeviceLockWait")[1]
        return max(0.0, self._held - before)

    def busy(self) -> tuple[float, float]:
        """Returns the seconds of compiling and of executing so far. The latter are 0 if they are not known."""
        return self._timed("CompileTime")[1], self.executions.busy_seconds() if self.executions else 0.0

    def reading_seconds(self) -> float:
        """Returns the seconds so far in which values were copied from the device, waiting for it included."""
        return self._timed(_FROM_DEVICE)[1]

    def document(self, breaks: int, breaks_per_step: float) -> JsonObject:
        """Returns the report's figures. `breaks`: the number of graphs that ran because a value was read."""
        fallbacks = self._fallbacks()
        compiles, compile_seconds = self._timed("CompileTime")
        return {
            "compiles": compiles,
            "compile_seconds": compile_seconds,
            "cache": compile_cache.figures(),
            "executions": self.executed(),
            # torch_xla's own ExecuteTime begins when a program is queued, so times of programs overlap.
            "execute_seconds": round(self.busy()[1], 6),
            "device": self.executions.document() if self.executions else {},
            "tracing_seconds": self._timed("LazyTracing")[1],
            "transfers": {
                "to_device": self._transfer("TransferToDeviceTime", "OutboundData"),
                "from_device": self._transfer(_FROM_DEVICE, "InboundData"),
            },
            "fallbacks": fallbacks,
            "fallback_repeats": {
                name: count - self._in_steps.get(name, (0, 0))[1] for name, count in fallbacks.items()
            },
            "graph": {
                "nodes_max": int(max((sample[1] for sample in self._samples("TensorsGraphSize")), default=0)),
                "breaks": breaks,
                "breaks_per_step": round(breaks_per_step, 3),
                **xla.figures(),
            },
            "replayed": replays.figures(),
        }

    def client(self) -> str:
        """Returns the PJRT plugin, with its version and that of its API. Empty for torch_xla's built-in client."""
        return compile_cache.client()

    def platform(self) -> str:
        """Returns PJRT's name of the platform: CPU, CUDA, ..."""
        return str(self._native._xla_get_devices()[0]).partition(":")[0]

    def _cleared_counters(self, clear: Callable[[], None]) -> Callable[[], None]:
        @untraced
        def cleared() -> None:
            names = {*self._native._xla_counter_names(), *self._carried}
            before = {name: self._count(name) for name in names}
            clear()
            # Some counters are not cleared.
            self._carried = {name: before[name] - (self._value(name) or 0) for name in names}

        return cleared

    def _cleared_metrics(self, clear: Callable[[], None]) -> Callable[[], None]:
        @untraced
        def cleared() -> None:
            names = {*self._native._xla_metric_names(), *self._carried_timed}
            before = {name: self._metric(name) for name in names}
            clear()
            self._carried_timed = {}
            after = {name: self._metric(name) for name in names}
            self._carried_timed = {
                name: (before[name][0] - after[name][0], before[name][1] - after[name][1]) for name in names
            }

        return cleared

    def _count(self, name: str) -> int:
        return (self._value(name) or 0) + self._carried.get(name, 0)

    def _metric(self, name: str) -> tuple[int, float, list[Any]]:
        count, total, samples = self._native._xla_metric_data(name) or (0, 0.0, [])
        before = self._carried_timed.get(name, (0, 0.0))
        return count + before[0], total + before[1], samples

    def _timed(self, name: str) -> tuple[int, float]:
        count, nanoseconds = self._metric(name)[:2]
        return count, round(nanoseconds / 1e9, 6)

    def _samples(self, name: str) -> list[Any]:
        return self._metric(name)[2]

    def _transfer(self, timed: str, sized: str) -> dict[str, float]:
        count, seconds = self._timed(timed)
        return {"count": count, "bytes": int(self._metric(sized)[1]), "seconds": seconds}

    def _fallbacks(self) -> dict[str, int]:
        """Counts fallbacks to the CPU, without the reading of a scalar, which torch_xla counts as one."""
        carried = {name for name, count in self._carried.items() if count and name.startswith("aten::")}
        names = {*self._native._get_executed_fallback_ops(), *carried}
        return {name: self._count(name) for name in sorted(names) if name != "aten::_local_scalar_dense"}
