"""Reads how long this process has waited for a CPU that something else used."""

from pathlib import Path

from sagelet_runtime.base.wire import JsonObject

_TASKS = Path("/proc/self/task")
_NANOSECONDS = 1e9


def cpu_times(tasks: Path = _TASKS) -> JsonObject:
    """Returns the seconds that the process's threads ran, and that they were ready to run and had no CPU.

    Source: `schedstat` of each thread (Linux, Documentation/scheduler/sched-stats.rst). Both are 0 where the kernel
    does not count. The counts of threads that have ended are lost.
    """
    ran = waited = 0
    for task in tasks.glob("*"):
        try:
            counts = (task / "schedstat").read_text().split()
        except OSError:  # The thread has ended since, or the kernel does not count.
            continue
        ran, waited = ran + int(counts[0]), waited + int(counts[1])
    return {"cpu_seconds": round(ran / _NANOSECONDS, 3), "cpu_wait_seconds": round(waited / _NANOSECONDS, 3)}
