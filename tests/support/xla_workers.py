"""Starts the workers of one job as a launcher does: processes with torchrun's variables and the torch_xla hook."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from support import forked_python

RUNTIME = Path(__file__).parents[2] / "images" / "runtime"
STARTUP = RUNTIME / "sagelet_runtime" / "startup"
DEADLINE = 300.0
#: For a program of XLA that runs a few times. It halves the time to compile, which is most of such a test.
UNOPTIMIZED = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
#: Variables of a job that trains a tiny model.
TINY = {"OMP_NUM_THREADS": "1", "PJRT_NPROC": "1", **UNOPTIMIZED}
#: Below those that sagelet leases. A worker of pytest-xdist has its own, and another run begins elsewhere among them.
_WORKER, _SPAN = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")), 1_000
_PORTS = cycle(12_000 + _WORKER % 8 * _SPAN + (os.getpid() * 37 + count) % _SPAN for count in range(_SPAN))


@dataclass(frozen=True)
class EndedWorker:
    code: int
    out: str
    err: str


def worker_environment(rank: int, size: int, port: int, local_size: int | None = None) -> dict[str, str]:
    local = local_size or size
    return plain_environment() | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % local),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(local),
        "GROUP_RANK": str(rank // local),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def plain_environment() -> dict[str, str]:
    """Returns the environment of a compiled job's only process."""
    left_out = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PT_XLA_DEBUG")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {
        "PYTHONPATH": f"{STARTUP}{os.pathsep}{RUNTIME}",
        "SM_TRAINING_COMPILER_CONFIGURED": "1",
        "PJRT_DEVICE": "CPU",
        "USE_TORCH_XLA": "1",
        "PYTHONUNBUFFERED": "1",
        **TINY,
    }


def quiet_port() -> int:
    """Returns a free port below the kernel's range for connections, so that a waiting client cannot reach itself.

    It is another one at each call, because the workers of the last call may not listen yet.
    """
    for port in _PORTS:
        with socket.socket() as trial:
            try:
                trial.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


class Workers:
    """`size` workers that run `command`. All are ended at the end of the `with`."""

    def __init__(
        self,
        size: int,
        command: Sequence[str | Path],
        directory: Path,
        extra: Mapping[str, str] | None = None,
        local_size: int | None = None,
        *,
        forked: bool = True,
    ) -> None:
        """`forked`: by `forked_python`, which tests that look at the workers' processes leave out."""
        program = forked_python.python() if forked else sys.executable
        port = quiet_port()
        self._directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        for rank in range(size):
            environment = (
                worker_environment(rank, size, port, local_size) | {"RESULTS": str(directory)} | dict(extra or {})
            )
            with open(directory / f"{rank}.out", "wb") as out, open(directory / f"{rank}.err", "wb") as err:
                self.processes.append(
                    subprocess.Popen(
                        [program, *map(str, command)],
                        env=forked_python.variables(environment),
                        stdout=out,
                        stderr=err,
                        cwd=directory,
                        start_new_session=True,
                    )
                )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def ended(self, rank: int, timeout: float = DEADLINE) -> EndedWorker:
        code = self.processes[rank].wait(timeout)
        read = [(self._directory / f"{rank}.{kind}").read_text(errors="replace") for kind in ("out", "err")]
        return EndedWorker(code, *read)


def run_workers(
    size: int,
    command: Sequence[str | Path],
    directory: Path,
    extra: Mapping[str, str] | None = None,
    local_size: int | None = None,
) -> list[EndedWorker]:
    """Runs all workers to their end. A failed one fails the test, with its log."""
    with Workers(size, command, directory, extra, local_size) as workers:
        ended = [workers.ended(rank) for rank in range(size)]
    failed = [
        f"rank {rank}:\n{worker.out[-4000:]}\n{worker.err[-6000:]}"
        for rank, worker in enumerate(ended)
        if worker.code != 0
    ]
    assert not failed, "\n".join(failed)
    return ended


def results(directory: Path, size: int) -> list[dict[str, Any]]:
    """Returns what each rank's program left in `RESULTS/rank-N.json`."""
    return [json.loads((directory / f"rank-{rank}.json").read_text()) for rank in range(size)]
