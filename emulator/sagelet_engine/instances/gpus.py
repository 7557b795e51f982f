"""The host's GPUs, and the jobs that have leased them."""

import logging
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sagelet_engine.base.errors import SageletError
from sagelet_engine.instances.catalogue import gpu_count
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import Job
from sagelet_engine.model.spec import InstanceGroup
from sagelet_engine.settings import GpuPolicy

log = logging.getLogger(__name__)

#: Seconds that the driver's tool may take. It hangs if a GPU has fallen off the bus.
TIMEOUT_S = 30


class NoCapacity(SageletError):
    """The host can never give what the job asks for."""


@dataclass(frozen=True)
class Lease:
    """What a job got: GPUs by UUID, or a sentence that says what stands in for them."""

    gpus: tuple[str, ...] = ()
    stand_in: str = ""


def detect_gpus() -> tuple[str, ...]:
    """Returns UUIDs of the host's NVIDIA GPUs from the driver's own tool. Empty without a working driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("no GPU is used: %s", error)
        return ()
    # Some versions print "No devices were found" here.
    return tuple(line.strip() for line in asked.stdout.splitlines() if line.startswith("GPU-"))


def gpus_of(job: Job, host: str) -> tuple[str, ...]:
    """Returns one host's share of the GPUs that its job has leased: what its instance type has, hosts in order."""
    if not job.gpus:
        return ()
    first = 0
    for group in job.spec.instance_groups:
        count = gpu_count(group.instance_type)
        for name in group.hosts:
            if name == host:
                return job.gpus[first : first + count]
            first += count
    raise ValueError(f"{job.key.name} has no host {host}")


class GpuPool:
    """Leases whole GPUs to jobs. Thread-safe."""

    def __init__(self, gpus: Sequence[str], policy: GpuPolicy) -> None:
        self._all = () if policy is GpuPolicy.OFF else tuple(gpus)
        self._policy = policy
        self._taken: dict[str, tuple[str, ...]] = {}
        self._guard = threading.Lock()

    @property
    def total(self) -> int:
        return len(self._all)

    def lease(self, job_id: str, groups: Sequence[InstanceGroup]) -> Lease | None:
        """Returns what the job's hosts get now, or None if it has to wait for another job's GPUs.

        All hosts get their GPUs or none does. Raises NoCapacity under `--gpus require` if the machine will never have
        enough.
        """
        wanted = sum(gpu_count(group.instance_type) * len(group.hosts) for group in groups)
        if not wanted:
            return Lease()
        if wanted > self.total:
            return self._stand_in(_named(groups), wanted)
        with self._guard:
            taken = {gpu for gpus in self._taken.values() for gpu in gpus}
            free = [gpu for gpu in self._all if gpu not in taken]
            if len(free) < wanted:
                return None
            self._taken[job_id] = tuple(free[:wanted])
            return Lease(self._taken[job_id])

    def restore(self, job_id: str, gpus: tuple[str, ...]) -> None:
        """Gives a job that has run since before a restart its GPUs again."""
        with self._guard:
            self._taken[job_id] = gpus

    def release(self, job_id: str) -> None:
        with self._guard:
            self._taken.pop(job_id, None)

    def _stand_in(self, instances: str, wanted: int) -> Lease:
        return _stand_in(instances, wanted, "this machine", self.total, self._policy)


class ClusterGpus:
    """Decides which jobs ask a cluster for GPUs. The cluster itself knows which are free, and waits for them."""

    def __init__(self, policy: GpuPolicy) -> None:
        self._policy = policy

    def lease(self, groups: Sequence[InstanceGroup], per_node: Callable[[], int]) -> Lease:
        """Returns the number of GPUs to ask for on each host. Slurm assigns the GPUs. Raises NoCapacity under `--gpus
        require`.
        """
        counts = [gpu_count(group.instance_type) for group in groups for _ in group.hosts]
        if not any(counts):
            return Lease()
        most = 0 if self._policy is GpuPolicy.OFF else per_node()
        if max(counts) > most:
            return _stand_in(_named(groups), sum(counts), "a node of the cluster", most, self._policy)
        return Lease(tuple(f"node-{node}-gpu-{gpu}" for node, count in enumerate(counts) for gpu in range(count)))


def _stand_in(instances: str, wanted: int, what: str, total: int, policy: GpuPolicy) -> Lease:
    have = f"{total} GPU{'s' if total != 1 else ''}" if total else "no GPU"
    if policy is GpuPolicy.REQUIRE:
        raise NoCapacity(
            f"{aws_texts.NO_CAPACITY} (sagelet: {instances} asks for {wanted}, {what} has {have} and "
            "--gpus is 'require')"
        )
    who = "--gpus is 'off'" if policy is GpuPolicy.OFF else f"{what} has {have}"
    workers = "1 CPU worker stands in for 1 GPU" if wanted == 1 else f"CPU workers stand in for {wanted} GPUs"
    return Lease(stand_in=f"{workers} of {instances}: {who}")


def _named(groups: Sequence[InstanceGroup]) -> str:
    """Names the instances that have GPUs: `ml.p3.8xlarge`, `2 ml.p3.8xlarge + 1 ml.g5.xlarge`."""
    counts = [(len(group.hosts), group.instance_type) for group in groups if gpu_count(group.instance_type)]
    if len(counts) == 1 and counts[0][0] == 1:
        return counts[0][1]
    return " + ".join(f"{count} {instance_type}" for count, instance_type in counts)
