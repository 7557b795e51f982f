"""Measures the CPU time and memory of a tree of processes."""

from collections.abc import Iterator
from contextlib import suppress

import psutil

from sagelet_engine.model.runtime import Usage


def below(shim: int) -> Usage | None:
    """Returns the usage of all processes that a host's shim started, or None if the shim is gone.

    The CPU time of an ended process is in the children's time of the process that waited for it. The shim waits for
    orphans, so the sum loses nothing. Private memory is summed and exact. Shared memory is counted once, as the largest
    share of one process, so it is a lower bound. (PSS would be exact, but walks all page tables.)
    """
    try:
        parent = psutil.Process(shim)
        children = parent.children(recursive=True)
    except psutil.NoSuchProcess:
        return None
    seconds = sum(_children_seconds(process) for process in (parent, *children)) + sum(map(_own_seconds, children))
    memory = list(_memory(children))
    private, shared = sum(own for own, _ in memory), max((both for _, both in memory), default=0)
    return Usage(seconds, private + shared, psutil.virtual_memory().total)


def _own_seconds(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return times.user + times.system
    return 0.0


def _children_seconds(process: psutil.Process) -> float:
    """Seconds of ended children. Zero if the system does not report it (macOS)."""
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.children_user + times.children_system)
    return 0.0


def _memory(processes: list[psutil.Process]) -> Iterator[tuple[int, int]]:
    """Yields for each process the bytes that it has for itself, and those that it shares."""
    for process in processes:
        with suppress(psutil.Error):
            held = process.memory_info()
            shared = min(held.rss, getattr(held, "shared", 0))
            yield held.rss - shared, shared
