"""Measures the CPU time and memory of a host on its node, in its shim. Standard library only: psutil may be missing.

It counts as `process/usage.py` does: a child's time counts for the process that waited for it, shared memory once.
"""

import os
import resource

from sagelet_engine.base import json_files
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.runtimes.slurm import files as slurm_files

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def write(container: int = 0) -> None:
    """Writes the answer into the host's `run_dir`. `container`: its first process if it is not a descendant, or 0."""
    below = host_files.descendants(os.getpid())
    below += [container, *host_files.descendants(container)] if container else []
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = children.ru_utime + children.ru_stime + sum(map(_seconds, below))
    memory = [_memory(pid) for pid in below]
    held = sum(own for own, _ in memory) + max((shared for _, shared in memory), default=0)
    answer = {"cpu_seconds": seconds, "memory_bytes": held, "memory_limit_bytes": _limit()}
    json_files.write_json(slurm_files.USAGE, answer)


def _seconds(pid: int) -> float:
    """Returns CPU seconds of a process and its children. 0 if the process is gone."""
    fields = _fields(f"/proc/{pid}/stat", after=")")
    return sum(map(int, fields[11:15])) / _TICKS


def _memory(pid: int) -> tuple[int, int]:
    """Returns the bytes that a process has for itself, and those that it shares."""
    fields = _fields(f"/proc/{pid}/statm")
    if not fields:
        return 0, 0
    held, shared = int(fields[1]) * _PAGE, int(fields[2]) * _PAGE
    return held - min(held, shared), min(held, shared)


def _fields(path: str, after: str = "") -> list[str]:
    try:
        with open(path) as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return (text.rpartition(after)[2] if after else text).split()


def _limit() -> int:
    """Returns the memory that Slurm gives the job, or all of the node's."""
    granted = int(os.environ.get("SLURM_MEM_PER_NODE", "0"))
    return granted * 1024**2 or os.sysconf("SC_PHYS_PAGES") * _PAGE
