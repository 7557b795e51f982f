"""Data directories that are copied, moved and deleted under running hosts."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.server import SageletProcess, until
from support.shell_jobs import ShellJobs

#: Trains only when told to, and reads its pipe then, so the feeder must still run.
WAITS = (
    "echo ready; until [ -e /opt/ml/go ]; do $B usleep 50000; done;"
    "echo fed $($B wc -c < /opt/ml/input/data/pipe_0); echo w > /opt/ml/model/w"
)
FED = 300_000


def server_on(data: Path, runtime: str) -> SageletProcess:
    return SageletProcess(data, "--runtime", runtime, "--stop-grace", "2")


def start_waiting(server: SageletProcess, image: str) -> str:
    """Starts a job whose host waits. Returns the job's name once the host waits."""
    jobs = ShellJobs(server, image)
    jobs.s3.put_object(Bucket="tests", Key="fed/a", Body=b"x" * FED)
    name = jobs.start(WAITS, InputDataConfig=[pipe_channel()])
    jobs.wait_for_line(name, "ready")
    return name


def pipe_channel() -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/fed/", "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": "pipe", "InputMode": "Pipe", "DataSource": {"S3DataSource": source}}


def go(data: Path) -> None:
    """Lets the hosts of a data directory go on."""
    for host in data.glob("jobs/*/*/*/algo-1/opt-ml"):
        (host / "go").touch()


def check_trained(server: SageletProcess, image: str, name: str) -> None:
    """Checks that the job ends as if nothing had happened."""
    jobs = ShellJobs(server, image)
    ended = jobs.ended(name)
    assert ended["TrainingJobStatus"] == "Completed", ended
    assert jobs.written(name) == ["ready", f"fed {FED}"]
    assert jobs.artifact(name).keys() == {"w"}


@contextmanager
def paused(server: SageletProcess) -> Iterator[None]:
    """Stops the running server from writing during the block."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def copy(data: Path, target: Path, *options: str) -> None:
    subprocess.run(["cp", "-a", *options, str(data), str(target)], check=True, timeout=120)


def remove(data: Path) -> None:
    shutil.rmtree(data)


def ended_with(server: SageletProcess) -> str:
    """Waits for a server that ends by itself. Returns what it printed."""
    until(lambda: server.ended is not None)
    printed: str = until(lambda: "".join(server.output))
    return printed
