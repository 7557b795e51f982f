"""MASTER_PORTs: each job whose hosts share this machine's ports gets one that no other job has."""

import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sagelet_engine.errors import RuntimeUnavailable
from sagelet_engine.runtimes.host_files import read_json, write_json

#: Below Linux's range of ports that any connection may take (32768). torch's rendezvous listens on every address of the
#: machine, so the hosts' own addresses keep no two jobs apart.
FIRST, LAST = 20_000, 32_766
#: The master's port, and the next one for torch_xla's coordinator on GPUs.
PORTS_OF_A_JOB = 2
_LOCK = ".lock"


class PortLeases:
    """Leases as files of `directory`, by job: they outlive the server, and end with `release`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def lease(self, job_id: str) -> int:
        """The first of the job's ports; the same whenever it is asked. RuntimeUnavailable: every port is taken.

        A port of another program, or of another server's job, is known to be taken once it is bound. So that two
        servers seldom choose the same, each job begins its search elsewhere.
        """
        with self._alone():
            known = read_json(self._file(job_id))
            if known is not None:
                return int(known["port"])
            port = self._free(job_id)
            write_json(self._file(job_id), {"port": port})
            return port

    def release(self, job_id: str) -> None:
        self._file(job_id).unlink(missing_ok=True)

    def _free(self, job_id: str) -> int:
        files = list(self._directory.glob("*.json"))
        leased = {int(content["port"]) for file in files if (content := read_json(file)) is not None}
        for port in candidates(job_id):
            if port not in leased and all(is_free(port + more) for more in range(PORTS_OF_A_JOB)):
                return port
        raise RuntimeUnavailable(f"no port from {FIRST} to {LAST} is free for the job's workers to meet at")

    def _file(self, job_id: str) -> Path:
        return self._directory / f"{quote(job_id, safe='')}.json"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Jobs are launched by several threads."""
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def candidates(job_id: str) -> Iterator[int]:
    """Every first port of a job, from one on that differs from job to job."""
    count = (LAST - FIRST) // PORTS_OF_A_JOB
    begin = int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:4], "big") % count
    return (FIRST + PORTS_OF_A_JOB * ((begin + step) % count) for step in range(count))


def is_free(port: int) -> bool:
    """Whether nobody has bound the port on any address of this machine."""
    with socket.socket() as trial:
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True
