"""Chooses the CPUs and the memory that a job asks of a node: its instance type's, or the node's if those are less.

The cluster of a lab rarely has nodes of AWS's sizes. A job whose instance type is larger than the nodes runs on these
nodes, just as CPUs stand in for GPUs. Only rules ask for exact sizes. Slurm's own defaults would be one CPU, and often
all memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sagelet_engine.instances.catalogue import InstanceType, find
from sagelet_engine.model.cluster import AllocationRequest
from sagelet_engine.runtimes.slurm.rules import Placement

#: Slurm's default of RealMemory, in MB.
UNKNOWN_MEMORY = 1
_CPUS = ("--cpus-per-task", "--cpus-per-gpu", "--exclusive")
_MEMORY = ("--mem",)


@dataclass(frozen=True)
class NodeKind:
    """Nodes of a partition that have the same size."""

    partition: str
    #: True if the partition is the cluster's default, for jobs that name none.
    is_default: bool
    #: The most GPUs of one kind.
    gpus: int
    cpus: int
    #: In MB.
    memory: int


def size_options(order: AllocationRequest, placement: Placement, kinds: Sequence[NodeKind]) -> list[str]:
    """Returns options of sbatch. A rule's own sizes win."""
    wanted = _largest(order)
    if wanted is None:
        return []
    cpus, memory = wanted.vcpus, int(wanted.memory_gib * 1024)
    kind = max(
        _possible(order, placement, kinds),
        key=lambda one: min(one.memory / memory, 1) + min(one.cpus / cpus, 1),
        default=None,
    )
    if kind is None:
        return []
    asked = []
    if "cpus" not in placement.places and not _has(placement, _CPUS):
        asked.append(f"--cpus-per-task={min(cpus, kind.cpus)}")
    if "memory" not in placement.places and not _has(placement, _MEMORY) and kind.memory > UNKNOWN_MEMORY:
        asked.append(f"--mem={min(memory, kind.memory)}")
    return asked


def _largest(order: AllocationRequest) -> InstanceType | None:
    """Returns the largest instance type, since all nodes of an allocation are alike. None if all are unknown."""
    known = [one for one in map(find, order.instance_types) if one is not None]
    return max(known, key=lambda one: (one.gpus, one.vcpus, one.memory_gib), default=None)


def _possible(order: AllocationRequest, placement: Placement, kinds: Sequence[NodeKind]) -> list[NodeKind]:
    """Returns the nodes on which the job may run, as far as that is known."""
    named = placement.places.get("partition", "").split(",")
    allowed = [one for one in kinds if one.partition in named or (named == [""] and one.is_default)]
    return [one for one in allowed if one.gpus >= order.gpus or "gres" in placement.places]


def _has(placement: Placement, names: Sequence[str]) -> bool:
    return any(option.startswith(name) for option in placement.extra for name in names)
