"""The command that a node runs for a host."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model.runtime import MOST_PROCESSES, WARM_POOL_CACHE, HostPlan, LaunchPlan
from sagelet_engine.runtimes.docker import spec as docker_spec
from sagelet_engine.runtimes.node import host_plan
from sagelet_engine.runtimes.node.confinement import NO_EXCEPTIONS, Exceptions
from sagelet_engine.runtimes.node.plan import Plan
from sagelet_engine.runtimes.process.runtime import StandIn, has_stand_in_for
from sagelet_engine.runtimes.slurm import docker as slurm_docker
from sagelet_engine.runtimes.slurm import images as slurm_images

Engine = Literal["docker", "apptainer", "enroot"]


class Task(Protocol):
    @property
    def afterwards(self) -> tuple[str, ...]:
        """The command that clears up on every node when a shim has failed. Empty if none is needed."""
        ...

    def has_image(self, image: str) -> bool:
        """Raises ClientFault for an image that it can never run."""
        ...

    def check(self, plan: LaunchPlan) -> None:
        """Raises ClientFault if the plan asks for more than this kind of task can give."""
        ...

    def content(self, plan: LaunchPlan, host: HostPlan, port: int) -> Plan:
        """Returns the host's plan, as far as the server knows it. `port`: the job's MASTER_PORT."""
        ...


class ProcessTask:
    """Runs hosts as processes. This Python, which nodes have at the same path, replaces the image."""

    afterwards: tuple[str, ...] = ()

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in

    def has_image(self, image: str) -> bool:
        return has_stand_in_for(self._stand_in, image)

    def check(self, plan: LaunchPlan) -> None:
        check_isolation(plan)

    def content(self, plan: LaunchPlan, host: HostPlan, port: int) -> Plan:
        image = self._stand_in
        content = host_plan.described(plan, host, image.command, image.python_path, os.environ, port, {}, image.keep)
        return {**content, "gpus": bool(host.gpu_uuids), "container": None}


@dataclass(frozen=True)
class ContainerTask:
    """Runs the job's image in a container of the node. Only the node knows its engine and images."""

    engine: Engine
    #: The server's name in labels, since a node may have containers of several servers.
    owner: str
    #: The nodes' interpreter.
    python: str
    #: Slurm's KillWait: seconds between its SIGTERM and its SIGKILL.
    kill_wait: int
    #: The directory of image files, or None if Docker has the images.
    images: Path | None = None
    exceptions: Exceptions = NO_EXCEPTIONS

    @property
    def afterwards(self) -> tuple[str, ...]:
        # Containers of other engines end with their shims.
        return (self.python, "-I", "-S", slurm_docker.__file__, self.owner) if self.engine == "docker" else ()

    def has_image(self, image: str) -> bool:
        """See the port. The nodes have the images, and the server may not see them."""
        if self.images is not None and self.images.is_dir():
            file = slurm_images.file_of(str(self.images), self.engine, image)
            if not Path(file).exists():
                raise ClientFault(f"there is {slurm_images.absent(file, self.engine, image)}")
        return True

    def check(self, plan: LaunchPlan) -> None:
        check_isolation(plan)
        if plan.network_isolation and self.engine == "enroot":
            raise ClientFault("EnableNetworkIsolation: enroot cannot isolate a container. Use --slurm-task docker.")

    def content(self, plan: LaunchPlan, host: HostPlan, port: int) -> Plan:
        labels = {
            slurm_docker.OWNER: self.owner,
            slurm_docker.LAUNCH: plan.job_id,
            slurm_docker.JOB_NAME: plan.job_name,
            slurm_docker.HOST: host.name,
        }
        return {
            "command": [],
            "environment": {
                # sagelet's framework module reads it, since jobs share their node's ports.
                "SAGELET_MASTER_PORT": str(port),
                **({} if host.gpu_uuids else {"NVIDIA_VISIBLE_DEVICES": "void"}),
                **plan.environment,
            },
            "directory": "/",
            "hostname": host.name,
            "isolate_network": plan.network_isolation,
            "most_processes": MOST_PROCESSES,
            "gpus": bool(host.gpu_uuids),
            "container": {
                "engine": self.engine,
                "images": str(self.images or ""),
                "image": plan.image,
                "entrypoint": None if plan.entrypoint is None else list(plan.entrypoint),
                "arguments": list(plan.arguments),
                "name": docker_spec.container_name(plan, self.owner, host.name),
                "labels": labels,
                "mounts": _mounts(host),
                "shm_bytes": plan.shm_bytes,
                "memory_bytes": host.memory_bytes,
                "cpus": host.vcpus,
                "read_only": not self.exceptions.keeps_root_writable(plan.image),
                "as_root": self.exceptions.runs_as_root(plan.image),
                "own": [str(one.absolute()) for one in (host.opt_ml, host.cache) if one is not None],
                "linked": [str((host.opt_ml / path).absolute()) for path in host.read_only],
                "patience": patience(self.kill_wait) if self.engine == "docker" else None,
            },
        }


def check_isolation(plan: LaunchPlan) -> None:
    """Raises ClientFault."""
    if plan.network_isolation and len(plan.hosts) > 1:
        raise ClientFault(
            "EnableNetworkIsolation with more than one instance needs the docker runtime: "
            "isolated hosts of several nodes cannot reach each other. Start sagelet with --runtime docker."
        )


def patience(kill_wait: int) -> float:
    """Returns the seconds from Slurm's SIGTERM to a container's end. `docker` needs the rest of KillWait."""
    return max(kill_wait / 2, kill_wait - 10)


def _mounts(host: HostPlan) -> list[tuple[str, str, bool]]:
    """Returns for each mount its source on the node, its target, and True if it is read-only.

    A mount below another one comes later.
    """
    opt_ml = host.opt_ml.absolute()
    return [
        (str(opt_ml), "/opt/ml", False),
        *((str(opt_ml / path), f"/opt/ml/{path}", True) for path in host.read_only),
        *_cache(host.cache),
        *((str(mount.source.absolute()), f"/opt/ml/{mount.target}", mount.read_only) for mount in host.mounts),
    ]


def _cache(cache: Path | None) -> list[tuple[str, str, bool]]:
    return [] if cache is None else [(str(cache.absolute()), f"/opt/ml/{WARM_POOL_CACHE}", False)]
