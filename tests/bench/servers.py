"""The servers that are measured, each in a process of its own."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

BINARIES = Path(sys.executable).parent
TESTS = Path(__file__).resolve().parents[1]
#: A server is at rest when it takes less than this share of a core, for so many seconds.
REST, LOOK = 0.1, 0.2


def cpu(process: psutil.Process) -> float:
    """Seconds so far, those of children that have ended included."""
    return float(sum(process.cpu_times()[:4]))


def rest(process: psutil.Process) -> None:
    """Waits until a server is at rest: it does some of its work after it has answered."""
    before, used = -1.0, cpu(process)
    while used - before > REST * LOOK:
        time.sleep(LOOK)
        before, used = used, cpu(process)


@contextmanager
def started(command: list[str], pattern: str) -> Iterator[tuple[str, psutil.Process]]:
    """A server, its endpoint as the pattern finds it in the output, and its process."""
    # Some servers are modules of `bench`.
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert process.stdout is not None
    try:
        match = next(found for line in process.stdout if (found := re.search(pattern, line)))
        # moto_server prints a line a request, and stands still when nobody reads them.
        threading.Thread(target=lambda: list(process.stdout or ()), daemon=True).start()
        yield match[1], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def moto() -> Iterator[tuple[str, psutil.Process]]:
    with started([str(BINARIES / "moto_server"), "--port", "0"], r"Running on (http://\S+)") as server:
        yield server


@contextmanager
def sagelet(data: Path, *options: str) -> Iterator[tuple[str, psutil.Process]]:
    command = [str(BINARIES / "sagelet"), "up", "--port", "0", "--data", str(data), *options]
    with started(command, r"ready: (http://\S+)") as server:
        yield server
