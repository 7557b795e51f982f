"""What a container takes of the machine, as Docker's stats tell it."""

from collections.abc import Mapping
from typing import Any

from sagelet_engine.runtimes.port import Usage


def usage(stats: Mapping[str, Any]) -> Usage | None:
    """From an answer of `GET /containers/ID/stats`; None for a container that does not run, which has no memory.

    Page cache that is not in use does not count, as in `docker stats`: cgroup v2 calls it inactive_file, v1
    total_inactive_file.
    """
    memory = stats.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    return Usage(
        cpu_seconds=stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        memory_bytes=max(0, memory["usage"] - cache),
        memory_limit_bytes=memory["limit"],
    )
