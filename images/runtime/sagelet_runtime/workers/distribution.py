"""Finds the launcher that a job's `distribution=` asks for, and the workers that it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sagelet_runtime.base import compiler
from sagelet_runtime.base.world import World, gpus_of

XLA, DDP, SMDDP, TORCHRUN, MPI = "pytorchxla", "pytorchddp", "smdistributed", "torch_distributed", "mpi"
#: Distributions whose workers train natively, unless the job is compiled.
NATIVE = (DDP, SMDDP, TORCHRUN)

#: Framework parameters and the SDK's names for them, in the order in which AWS's module for PyTorch checks them
#: (sagemaker_pytorch_container/training.py).
FLAGS = {
    "sagemaker_mpi_enabled": MPI,
    "sagemaker_pytorch_ddp_enabled": DDP,
    "sagemaker_torch_distributed_enabled": TORCHRUN,
    "sagemaker_distributed_dataparallel_enabled": SMDDP,
    compiler.MULTI_WORKER: XLA,
}


def chosen(job: Any) -> str | None:
    """Returns the distribution of this host's instance group, or None if the script runs alone.

    Raises CompilerConfigurationError for a flag that is not a boolean.
    """
    parameters = job.additional_framework_parameters
    if job.current_instance_group not in job.distribution_instance_groups:
        return None
    return next((name for flag, name in FLAGS.items() if compiler.parse_flag(flag, parameters.get(flag, False))), None)


def has_smddp(parameters: Mapping[str, object]) -> bool:
    """True if the job asks for SageMaker's library. Jobs of torchrun may have it, too."""
    flag = "sagemaker_distributed_dataparallel_enabled"
    return compiler.parse_flag(flag, parameters.get(flag, False))


def world_of(job: Any, environ: Mapping[str, str], address: str, port: int) -> World:
    """Returns the distribution's hosts, with one worker for each GPU of their instance types and at least one.

    Without a distribution, or outside of its instance groups, it has all hosts, for a launcher that the script starts.
    """
    types = {
        host: group["instance_type"]
        for group in job.resource_config.get("instance_groups", ())
        for host in group["hosts"]
    }
    hosts = tuple(job.distribution_hosts if job.current_host in job.distribution_hosts else job.hosts)
    counts = [gpus_of(types.get(host, job.current_instance_type), environ, job.num_gpus) for host in hosts]
    return World(hosts, tuple(max(1, count) for count in counts), job.current_host, address, port)


def announcement(name: str, world: World, instance_type: str, gpus: int, threads: int) -> str:
    """Returns the line about the workers in the job's log. `gpus`: the number of GPUs of this host."""
    hosts = f"on each of {len(world.hosts)} hosts" if len(world.hosts) > 1 else "on one host"
    if len(set(world.workers)) > 1:
        hosts = f"on {len(world.hosts)} hosts ({', '.join(map(str, world.workers))})"
    count = world.local_size
    if gpus >= count:
        who = f"1 worker for each of {count} GPU(s) of {instance_type}"
    else:
        who = f"{count} CPU worker(s) for {count} GPU(s) of {instance_type}, which this host does not have,"
    return f"{name}: {who} {hosts}: {world.size} worker(s), {threads} thread(s) each"
