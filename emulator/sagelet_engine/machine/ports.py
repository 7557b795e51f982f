"""Finds the process that listens on a port."""

from typing import Any


def listener(port: int) -> str:
    """Returns who listens on a TCP port, as far as this user may know: `process 4711 (nginx)`, or `another process`."""
    import psutil

    try:
        connections: list[Any] = psutil.net_connections("tcp")
        pids = [c.pid for c in connections if c.status == psutil.CONN_LISTEN and c.laddr.port == port and c.pid]
        return f"process {pids[0]} ({psutil.Process(pids[0]).name()})" if pids else "another process"
    except psutil.Error:
        return "another process"
