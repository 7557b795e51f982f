"""Which workers a job has, and what each is told: torchrun's variables, whoever starts it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sagelet_runtime.pairs import paired

#: JSON object: GPUs of each instance type of the job. From the platform, which knows SageMaker's catalogue.
INSTANCE_GPUS = "SAGELET_INSTANCE_GPUS"
#: The world as JSON, from `train` to the launchers below it.
VARIABLE = "SAGELET_WORLD"


@dataclass(frozen=True)
class World:
    """The hosts of a distribution and their workers. Ranks count through the hosts in order."""

    hosts: tuple[str, ...]
    #: Workers of each host.
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
        """Rank of this host's first worker."""
        return sum(self.workers[: self.host_index])

    def with_workers(self, count: int) -> World:
        """The same hosts with `count` workers each."""
        return replace(self, workers=(count,) * len(self.hosts))

    def environment(self, local_rank: int) -> dict[str, str]:
        """What one worker of this host finds in its environment, and PJRT's own names for the same."""
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
        """What Open MPI's mpirun adds, which starts such workers on SageMaker."""
        return {
            "OMPI_COMM_WORLD_RANK": str(self.first_rank + local_rank),
            "OMPI_COMM_WORLD_SIZE": str(self.size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
            "OMPI_COMM_WORLD_LOCAL_SIZE": str(self.local_size),
        }

    def name_of(self, rank: int) -> str:
        """For people: `worker 5 of 8 (algo-2, local rank 1)`."""
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
    """The world of a launcher that runs on a host. `workers`: as many on each host as its command line says.

    Outside of a job there is one host, with the workers of GPU_NUM_DEVICES.
    """
    if VARIABLE in environ:
        world = from_json(environ[VARIABLE])
    else:
        port = int(environ.get("MASTER_PORT", "29500"))
        count = int(environ.get("GPU_NUM_DEVICES", "1"))
        world = World(("localhost",), (count,), "localhost", environ.get("MASTER_ADDR", "127.0.0.1"), port)
    return world if workers is None else world.with_workers(workers)


def gpus_of(instance_type: str, environ: Mapping[str, str], found: int) -> int:
    """GPUs of an instance type; where the platform does not say, those that this host has: `found`."""
    counts: dict[str, int] = json.loads(environ.get(INSTANCE_GPUS, "{}"))
    return counts.get(instance_type, found)
