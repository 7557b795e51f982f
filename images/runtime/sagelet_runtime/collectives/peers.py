"""Finds which other workers are gone, for the messages of the workers that waited for them."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

#: Seconds from the closing of a process's sockets to its end, at most.
_EXIT_SECONDS = 1.0


@dataclass(frozen=True)
class Peer:
    rank: int
    hostname: str
    pid: int
    #: Tells one host's process ids from another's: the boot id and the PID namespace.
    machine: str
    address: str

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: bytes | str) -> Peer:
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.pid} on {self.hostname})"


def this_worker(rank: int, address: str) -> Peer:
    return Peer(rank, socket.gethostname(), os.getpid(), machine_id(), address)


def machine_id(proc: Path = Path("/proc")) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip() + os.readlink(proc / "self/ns/pid")
    except OSError:
        return socket.gethostname()


def ended(peers: Sequence[Peer], own: Peer, patience: float = _EXIT_SECONDS) -> list[Peer]:
    """Returns the peers on this machine whose process has ended, or ends within `patience` seconds."""
    here = [peer for peer in peers if peer.machine == own.machine and peer.rank != own.rank]
    deadline = time.monotonic() + patience
    while True:
        gone = [peer for peer in here if not is_alive(peer.pid)]
        if gone or time.monotonic() >= deadline:
            return gone
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def at_address(peers: Sequence[Peer], message: str) -> list[Peer]:
    """Returns the peers at the address in gloo's message: `Connection closed by peer [10.0.0.3]:4321`."""
    found = re.search(r"\[([0-9a-fA-F.:]+)\]:\d+", message)
    return [] if found is None else [peer for peer in peers if peer.address == found.group(1)]
