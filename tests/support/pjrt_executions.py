"""`python -m support.pjrt_executions FRONT SCENARIO`: runs programs of the fake plugin, and prints what was seen."""

import ctypes as c
import json
import os
import sys
import time

from sagelet_runtime.gpu.executions import Executions
from support.pjrt_driver import HEAD, Api, Compile, Program, Text


class Execute(c.Structure):
    _fields_ = [
        *HEAD, ("loaded", c.c_void_p), ("options", c.c_void_p), ("arguments", c.c_void_p), ("devices", c.c_size_t),
        ("count", c.c_size_t), ("outputs", c.c_void_p), ("complete", c.c_void_p), ("device", c.c_void_p),
    ]  # fmt: skip


class Driver:
    def __init__(self, front: str) -> None:
        library, self._plugin = c.CDLL(front), c.CDLL(os.environ["SAGELET_PJRT_PLUGIN"])
        library.GetPjrtApi.restype = c.POINTER(Api)
        self._functions = library.GetPjrtApi().contents.function
        self._call = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
        self._options = Text(c.sizeof(Text))
        self.seen = Executions(front)

    def compile(self, name: str) -> int:
        code = name.encode()
        source = Program(c.sizeof(Program), None, code, len(code), b"mlir", 4)
        asked = Compile(c.sizeof(Compile), None, None, c.pointer(source), b"", 0)
        assert not self._call(self._functions[20])(c.addressof(asked))
        loaded: int = asked.executable
        return loaded

    def run(self, loaded: int, devices: int = 1, *, asks: bool = True, arguments: int = 0) -> bool:
        """Returns whether the plugin ran it. `asks`: torch_xla wants the events, too."""
        events = (c.c_void_p * devices)()
        asked = Execute(c.sizeof(Execute), None, loaded, c.addressof(self._options), None, devices, arguments)
        asked.complete = c.addressof(events) if asks else None
        ran = not self._call(self._functions[55])(c.addressof(asked))
        assert all(events) == (asks and ran)
        assert bool(asked.complete) == asks
        return ran

    def end(self) -> float:
        """Ends the oldest program on one of its devices, after a while. Returns when, by time.perf_counter."""
        time.sleep(0.01)
        at = time.perf_counter()
        self._plugin.fake_end()
        return at

    def events(self) -> int:
        """Returns how many events of the plugin nobody has destroyed."""
        return c.c_int.in_dll(self._plugin, "fake_events").value


def main(front: str) -> dict[str, object]:
    driver = Driver(front)
    seen = driver.seen
    step, rest = driver.compile("step"), driver.compile("rest")
    began = time.perf_counter()
    driver.run(step, arguments=3)
    driver.run(rest, asks=False, arguments=4)
    own = driver.events()
    before = [seen.dispatched(), seen.done_at(1), seen.done_at(2)]
    first, second = driver.end(), driver.end()
    done = [seen.done_at(1), seen.done_at(2)]
    time.sleep(0.02)
    driver.run(step, devices=2)
    driver.end()
    half = seen.done_at(3)
    third = driver.end()
    busy, wall = seen.busy_seconds(), time.perf_counter() - began
    return {
        "before": before,
        "arguments": seen.arguments(),
        "half": half,
        "late": [done[0] - first, done[1] - second, seen.done_at(3) - third],  # type: ignore[operator]
        "busy": busy,
        "wall": wall,
        "events": [own, driver.events()],
        "document": seen.document(),
        "refused": not driver.run(step, devices=65) or seen.document()["lost"],
    }


def failing(front: str) -> dict[str, object]:
    """What the plugin refuses has ended at once."""
    driver = Driver(front)
    step = driver.compile("step")
    ran = driver.run(step)
    return {"ran": ran, "dispatched": driver.seen.dispatched(), "done": driver.seen.done_at(1) is not None}


def flooding(front: str) -> dict[str, object]:
    """Ends of long ago are forgotten, and a queue that is too long is not watched."""
    driver = Driver(front)
    step = driver.compile("step")
    for _ in range(5000):
        driver.run(step)
        driver._plugin.fake_end()
    document = driver.seen.document()
    return {"old": driver.seen.done_at(1), "new": bool(driver.seen.done_at(5000)), "count": document["programs"]}


def ending(front: str) -> dict[str, object]:
    """A program ends while the plugin is asked for the name of the next one."""
    driver = Driver(front)
    os.environ["FAKE_PLUGIN"] = ""
    first, second = driver.compile("first"), driver.compile("second")
    driver.run(first)
    os.environ["FAKE_PLUGIN"] = "wait"
    driver.run(second)
    driver.end()
    return {"done": driver.seen.done_at(2) is not None, "programs": driver.seen.document()["programs"]}


def starving(front: str) -> dict[str, object]:
    """The front has no memory (its `no_memory`) for the second of three executions, and of the API's table at first."""
    library = c.CDLL(front)
    library.GetPjrtApi.restype = c.c_void_p
    no_memory = c.c_int.in_dll(library, "no_memory")
    no_memory.value = 1
    table = library.GetPjrtApi()
    no_memory.value = 0
    driver = Driver(front)
    step = driver.compile("step")
    ran = []
    for number in range(3):
        no_memory.value = int(number == 1)
        ran.append([driver.run(step, devices=2), driver.run(step, asks=False)])
    while driver.seen.document()["programs"][0]["count"] < 4:
        driver._plugin.fake_end()
    document = driver.seen.document()
    return {"table": table, "ran": ran, "lost": document["lost"], "dispatched": driver.seen.dispatched()}


if __name__ == "__main__":
    scenarios = {"main": main, "failing": failing, "flooding": flooding, "ending": ending, "starving": starving}
    print(json.dumps(scenarios[sys.argv[2]](sys.argv[1])))
