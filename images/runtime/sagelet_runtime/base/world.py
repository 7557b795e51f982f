"""The workers of a job and the variables that each gets. The names are torchrun's with every launcher. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sagelet_runtime.base.pairs import paired

#: JSON object: the number of GPUs of each of the job's instance types. The engine sets it from SageMaker's catalogue.
INSTANCE_GPUS = "SAGELET_INSTANCE_GPUS"
#: The world as JSON. `train` sets it for the launchers below it.
VARIABLE = "SAGELET_WORLD"


@dataclass(frozen=True)
class World:
    """The hosts of a distribution and their workers. Ranks are numbered through the hosts in order."""

    hosts: tuple[str, ...]
    #: The number of workers of each host.
    workers: tuple[int, ...]
    #: The host that this process is on.
    current: str
    master_address: str
    master_port: int

    @property
    def size(self) -> int:
        return sum(self.workers)

    @property
    def host_index(self) -> int:
        return self.hosts.index(self.current)

    @property
    def local_size(self) -> int:
        return self.workers[self.host_index]

    @property
    def first_rank(self) -> int:
        """The rank of this host's first worker."""
        return sum(self.workers[: self.host_index])

    def with_workers(self, count: int) -> World:
        """Returns the same hosts with `count` workers each."""
        return replace(self, workers=(count,) * len(self.hosts))

    def environment(self, local_rank: int) -> dict[str, str]:
        """Returns the variables of one worker of this host, with PJRT's own names for rank and count on the host."""
        return {
            "RANK": str(self.first_rank + local_rank),
            "LOCAL_RANK": str(local_rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "GROUP_RANK": str(self.host_index),
            "MASTER_ADDR": self.master_address,
            "MASTER_PORT": str(self.master_port),
            "PJRT_LOCAL_PROCESS_RANK": str(local_rank),
            "PJRT_LOCAL_PROCESS_COUNT": str(self.local_size),
        }

    def mpi_environment(self, local_rank: int) -> dict[str, str]:
        """Returns the variables that Open MPI's mpirun adds, which starts such workers on SageMaker."""
        return {
            "OMPI_COMM_WORLD_RANK": str(self.first_rank + local_rank),
            "OMPI_COMM_WORLD_SIZE": str(self.size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(self.local_size),
        }

    def name_of(self, rank: int) -> str:
        """Returns a name for messages: `worker 5 of 8 (algo-2, local rank 1)`. Raises ValueError for other ranks."""
        before = 0
        for host, count in paired(self.hosts, self.workers):
            if rank < before + count:
                return f"worker {rank} of {self.size} ({host}, local rank {rank - before})"
            before += count
        raise ValueError(f"no worker {rank} in a world of {self.size}")

    def to_json(self) -> str:
        return json.dumps(self.__dict__)


def from_json(text: str) -> World:
    fields = json.loads(text)
    return World(**{**fields, "hosts": tuple(fields["hosts"]), "workers": tuple(fields["workers"])})


def from_environment(environ: Mapping[str, str], workers: int | None = None) -> World:
    """Returns the world of a launcher that runs on a host.

    `workers`: the number for each host from the launcher's command line, or None if it names none. Outside of a job
    there is one host, with as many workers as GPU_NUM_DEVICES says (default 1).
    """
    if VARIABLE in environ:
        world = from_json(environ[VARIABLE])
    else:
        port = int(environ.get("MASTER_PORT", "29500"))
        count = int(environ.get("GPU_NUM_DEVICES", "1"))
        world = World(("localhost",), (count,), "localhost", environ.get("MASTER_ADDR", "127.0.0.1"), port)
    return world if workers is None else world.with_workers(workers)


def gpus_of(instance_type: str, environ: Mapping[str, str], found: int) -> int:
    """Returns the number of GPUs of an instance type, or `found`, the GPUs of this host, if INSTANCE_GPUS lacks it."""
    counts: dict[str, int] = json.loads(environ.get(INSTANCE_GPUS, "{}"))
    return counts.get(instance_type, found)
