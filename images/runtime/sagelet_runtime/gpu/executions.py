"""When programs really ended on the device, from the library before the PJRT plugin (`pjrt_front.c`, "executions")."""

from __future__ import annotations

import ctypes
import os

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.gpu import plugin

#: MOST_PROGRAMS of pjrt_front.c.
MOST_PROGRAMS = 64


class Device(ctypes.Structure):
    """`Device` of pjrt_front.c. Numbers of executions and of their arguments, and nanoseconds."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("dispatched", "done", "busy_ns", "idle_ns", "deepest", "lost", "arguments")
    ]  # fmt: skip


class ProgramTime(ctypes.Structure):
    """`ProgramTime` of pjrt_front.c."""

    _fields_ = [("name", ctypes.c_char * 64), ("count", ctypes.c_int64), ("busy_ns", ctypes.c_int64)]


class Executions:
    """Executions of this process, numbered from 0 in the order in which the script dispatched them."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._device = library.sagelet_pjrt_front_device
        self._done = library.sagelet_pjrt_front_done
        self._done.restype, self._done.argtypes = ctypes.c_int64, [ctypes.c_int64]
        self._programs = library.sagelet_pjrt_front_programs

    def dispatched(self) -> int:
        """Returns how many executions the script has dispatched."""
        return int(self._read().dispatched)

    def arguments(self) -> int:
        """Returns how many arguments these executions had, all together."""
        return int(self._read().arguments)

    def done_at(self, count: int) -> float | None:
        """Returns when the first `count` executions had ended, by time.perf_counter. None if they have not.

        0 if that is forgotten: the library keeps the ends of the last 4,096 executions.
        """
        at = int(self._done(count - 1)) if count else -1
        return None if at == 0 else max(at, 0) / 1e9

    def busy_seconds(self) -> float:
        """Returns the seconds in which at least one program ran or was due on the device. Overlaps count once."""
        return float(self._read().busy_ns / 1e9)

    def document(self) -> JsonObject:
        device = self._read()
        entries = (ProgramTime * MOST_PROGRAMS)()
        count = self._programs(entries)
        programs = sorted(entries[:count], key=lambda one: -one.busy_ns)
        return {
            "busy_seconds": round(device.busy_ns / 1e9, 6),
            "idle_seconds": round(device.idle_ns / 1e9, 6),
            "deepest_queue": device.deepest,
            "lost": device.lost,
            "programs": [
                {"name": one.name.decode(errors="replace"), "count": one.count, "seconds": round(one.busy_ns / 1e9, 6)}
                for one in programs
            ],
        }

    def _read(self) -> Device:
        device = Device()
        self._device(ctypes.byref(device))
        return device


def of_process() -> Executions | None:
    """Returns the executions of this process, or None if it uses torch_xla's own client."""
    front = os.environ.get(plugin.FRONT)
    return Executions(front) if front and os.environ.get("PJRT_DEVICE") != "CPU" else None
