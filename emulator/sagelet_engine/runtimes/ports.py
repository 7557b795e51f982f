"""Leases of MASTER_PORT: a job whose hosts share this machine's ports gets a port that no other job has."""

import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.base.json_files import read_json, write_json

#: Below Linux's ephemeral ports, which any connection may take (from 32768). torch's rendezvous listens on every
#: address of the machine, so two jobs need two ports although their hosts have addresses of their own.
FIRST, LAST = 20_000, 32_766
#: The master's port, and the port after it for torch_xla's coordinator on GPUs.
PORTS_OF_A_JOB = 2
_LOCK = ".lock"


class PortLeases:
    """Leases, one file of `directory` for each job. They outlive the server and end with `release`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def lease(self, job_id: str) -> int:
        """Returns the first of the job's ports, the same at every call. Raises RuntimeUnavailable if none is free.

        A port of another program, or of another server's job, looks free until it is bound. Each job begins its search
        at a different port, so that two servers seldom choose the same one.
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
        """Holds the lock of all leases, since several threads launch jobs."""
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def candidates(job_id: str) -> Iterator[int]:
    """Yields every possible first port once. Where it begins depends on the job."""
    count = (LAST - FIRST) // PORTS_OF_A_JOB
    begin = int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:4], "big") % count
    return (FIRST + PORTS_OF_A_JOB * ((begin + step) % count) for step in range(count))


def is_free(port: int) -> bool:
    """True if no program has bound the port on any address of this machine."""
    with socket.socket() as trial:
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True
