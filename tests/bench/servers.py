"""The measured servers, their cost, and the runtimes where their jobs run."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.images.engine import connect, image_id
from sagelet_engine.images.variants import training_image
from support import tiny_image
from support.server import NATIVE, SageletProcess, ServerProcess
from support.shell_jobs import ShellJobs

#: A server is at rest if it takes less than this share of a core for this many seconds.
REST, LOOK = 0.1, 0.2


def moto_server(*command: str) -> ServerProcess:
    """moto_server, or a program that becomes one."""
    moto = [str(Path(sys.executable).with_name("moto_server")), "--port", "0"]
    return ServerProcess(*(command or moto), ready=r"Running on (http://\S+)")


def cpu(process: psutil.Process) -> float:
    """The server's own CPU seconds so far, without those of its hosts."""
    return float(sum(process.cpu_times()[:2]))


def memory_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 2**20)


def rest(process: psutil.Process) -> None:
    """Waits until a server is at rest: it does some of its work after it has answered."""
    before, used = -1.0, cpu(process)
    while used - before > REST * LOOK:
        time.sleep(LOOK)
        before, used = used, cpu(process)


@dataclass
class Cost:
    """The cost of some work for a server. Memory is resident memory."""

    seconds: float = 0.0
    #: Until the server is at rest again.
    cpu: float = 0.0
    memory_mb: float = 0.0
    growth_mb: float = 0.0
    threads: int = 0


@contextmanager
def watched(process: psutil.Process) -> Iterator[Cost]:
    """Measures a server while the block runs. The cost is complete after the block."""
    rest(process)
    cost, over = Cost(), threading.Event()
    before, used = memory_mb(process), cpu(process)

    def look() -> None:
        while not over.wait(0.01):
            cost.memory_mb = max(cost.memory_mb, memory_mb(process))
            cost.threads = max(cost.threads, process.num_threads())

    watcher = threading.Thread(target=look)
    watcher.start()
    began = time.perf_counter()
    try:
        yield cost
        cost.seconds = time.perf_counter() - began
    finally:
        over.set()
        watcher.join()
    cost.growth_mb = max(0.0, cost.memory_mb - before)
    rest(process)
    cost.cpu = cpu(process) - used


@dataclass(frozen=True)
class Place:
    """A runtime, with a server and jobs in images that the runtime can use."""

    #: As `--runtime` calls it.
    name: str
    server: SageletProcess
    #: Jobs in an image of a shell and little else.
    shell: ShellJobs
    #: Jobs in an image with Python and the toolkit.
    training: ShellJobs
    training_image: str


@contextmanager
def places(directory: Path, *options: str) -> Iterator[tuple[list[Place], list[str]]]:
    """Yields the runtimes of this machine, and the reasons why others are left out."""
    found, absent = [("process", NATIVE, NATIVE)], []
    try:
        client, image = connect(), training_image()
        if image_id(client, image) is None:
            raise RuntimeUnavailable(f"{image} is not there: `make image`")
        found.append(("docker", tiny_image.ensure(client), image))
    except RuntimeUnavailable as error:
        absent.append(f"Left out: docker: {error}.")
    with ExitStack() as stack:
        users = []
        for name, tiny, image in found:
            server = stack.enter_context(SageletProcess(directory / f"data-{name}", "--runtime", name, *options))
            users.append(Place(name, server, ShellJobs(server, tiny), ShellJobs(server, image), image))
        yield users, absent
