"""The runtime port, which is all that the rest of the engine knows about Docker, processes or Slurm.

A *host* is one SageMaker instance of a job (`algo-1`, `algo-2`, ...). Every method may be called again after a crash of
sagelet: a runtime keeps what it needs outside of this process (container labels, files of the host).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from sagelet_engine.model.cluster import Cluster

#: Where AWS mounts a warm pool's persistent cache (developer guide, "SageMaker AI Managed Warm Pools"), in /opt/ml.
WARM_POOL_CACHE = "sagemaker/warmpoolcache"
#: Directory in the host's `run_dir` of what a container writes outside of /opt/ml. It is removed with the container.
SCRATCH = "scratch"
#: Processes and threads of a host: enough for data loaders and compilers, and a limit for a fork bomb.
MOST_PROCESSES = 16384


@dataclass(frozen=True)
class Mount:
    """A directory of this machine that the training code sees in its /opt/ml. Nothing is copied."""

    source: Path
    #: Relative to /opt/ml. An empty directory exists there already.
    target: str
    #: A runtime without private mounts cannot enforce this.
    read_only: bool


@dataclass(frozen=True)
class HostPlan:
    """One host to start."""

    #: SageMaker's name of the host, `algo-1`; also its host name inside.
    name: str
    #: The directory that the training code sees as /opt/ml.
    opt_ml: Path
    #: sagelet's own files about this host (output, exit status); the training code never sees it.
    run_dir: Path
    #: Directories of /opt/ml that the training code can only read, relative to it (channels in FastFile mode).
    read_only: tuple[str, ...] = ()
    #: Kept from job to job (the persistent cache of a warm pool). Seen as WARM_POOL_CACHE, for which /opt/ml has a
    #: directory.
    cache: Path | None = None
    mounts: tuple[Mount, ...] = ()
    #: GPUs leased to this host, by UUID. Empty if none.
    gpu_uuids: tuple[str, ...] = ()
    #: CPUs and memory of its instance type, as far as the catalogue knows them. On a smaller machine the host gets what
    #: that has.
    vcpus: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class LaunchPlan:
    """All that a runtime needs to start the hosts of one job."""

    #: Unique for all time (a deleted job's name may be used again). A restarted server finds the hosts by it.
    job_id: str
    #: For people: the TrainingJobName, which goes into labels.
    job_name: str
    #: Reference of a local image; the process runtime runs without one.
    image: str
    hosts: tuple[HostPlan, ...]
    #: ContainerEntrypoint of the request. None for the image's own entry point.
    entrypoint: tuple[str, ...] | None = None
    #: Arguments after the entry point. SageMaker passes `train` if the request names neither.
    arguments: tuple[str, ...] = ("train",)
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Shared memory of a host in bytes: PyTorch's data loader workers need more than Docker's 64 MiB.
    shm_bytes: int = 2 * 1024**3
    #: EnableNetworkIsolation: no traffic in or out, other than between the hosts of the job.
    network_isolation: bool = False


@dataclass(frozen=True)
class Handle:
    """A host that was started. Only its runtime understands `ref`."""

    host: str
    ref: str
    #: When the host was started, ms since the epoch.
    started_ms: int


@dataclass(frozen=True)
class Observation:
    """The present state of a host."""

    running: bool
    #: None while it runs. Never negative: a signal N reads 128 + N, as in Docker.
    exit_code: int | None = None
    #: True if the kernel killed something in the host for lack of memory. The exit code may be 0 (a child died).
    out_of_memory: bool = False
    #: Why the host could not start or vanished, for people.
    error: str | None = None
    #: When it ended, in ms since the epoch, as far as the runtime knows.
    finished_ms: int | None = None
    #: True if the cause is the request, or something that the user has to change. Another attempt would not help.
    refused: bool = False
    #: True if its machine was taken away for a job with a higher priority. The job may start again elsewhere.
    interrupted: bool = False
    #: True if it was ended because the job's time in the cluster was over.
    time_over: bool = False


@dataclass(frozen=True)
class Usage:
    """A host's usage of this machine."""

    #: CPU time of all processes that ever ran in the host, in seconds of one core.
    cpu_seconds: float
    #: Memory that it holds now, without page cache that the kernel can drop.
    memory_bytes: int
    #: The most memory that it could hold: its own limit, or all memory of the machine.
    memory_limit_bytes: int


class Line(NamedTuple):
    """One line that a host printed, without its line end."""

    #: In ms since the epoch, never less than the line before.
    time_ms: int
    text: str
    #: Only the runtime understands it. `lines(handle, position)` continues right after this line.
    position: str


@dataclass(frozen=True)
class Capabilities:
    """What a runtime can do beside starting and ending hosts."""

    #: What to do so that compiled code runs on GPUs here.
    gpu_remedy: str
    #: True if no process of a host can write to the directories of HostPlan.read_only, not even as root.
    binds_read_only: bool = False
    #: True if has_image knows whether an image exists. False if the nodes of a cluster have the images.
    knows_images: bool = True
    #: True if hosts run the job's scripts. False if functions of a test stand in for them; those are not diagnosed.
    runs_scripts: bool = True


class Runtime(Protocol):
    """Starts, watches and ends the hosts of jobs."""

    #: `process`, `docker`, ...
    name: str

    @property
    def endpoint_host(self) -> str:
        """The name by which the hosts reach this machine, where sagelet's endpoint is."""
        ...

    @property
    def cluster(self) -> Cluster | None:
        """The cluster that gives out the job's hosts before they are launched. None if they run on this machine."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def awaits_time(self) -> bool:
        """True if nothing more happens in the hosts at the present moment. Always true where time passes by itself.

        False: something else may still happen at the same time of the clock, which stands still until then.
        """
        ...

    def has_image(self, image: str) -> bool:
        """True if the image exists. Raises ClientFault if this runtime could not run it in any case."""
        ...

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        """Starts every host of the plan. A host of this job id that exists already is returned, not started twice.

        Raises ClientFault if the plan cannot run at all (the message says why and what to do) and RuntimeUnavailable if
        the engine does not answer.
        """
        ...

    def find(self, job_id: str) -> list[Handle]:
        """Returns the existing hosts of a job, running or ended, for example after a restart of sagelet."""
        ...

    def jobs(self) -> set[str]:
        """Returns the ids of all jobs that have hosts of this data directory's id, or something else that `reap`
        removes.

        Raises RuntimeUnavailable.
        """
        ...

    def end_lost(self, *, dry_run: bool = False) -> list[str]:
        """Ends hosts, of any data directory, whose directory was certainly deleted. Returns their names, for people.

        Raises RuntimeUnavailable.
        """
        ...

    def observe(self, handle: Handle) -> Observation: ...

    def usage(self, handle: Handle) -> Usage | None:
        """Returns what the host takes now, or None if it does not run. Cheap, but may take a second."""
        ...

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        """Follows what the host prints, in batches as they come: from after `position`, or from the start if None.

        A batch may be empty (a heartbeat, at least one a second). Ends once the host has ended and its last line is
        out. It may also end early (the Docker daemon restarts, or closes the log of a host that is about to be down):
        the end is final only if `observe` said before the call that the host is down.

        Raises OutputTooLong, after the lines that were read, for a host that has printed more than the runtime keeps.
        """
        ...

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        """Asks the host to end (SIGTERM) or, with `force`, ends it (SIGKILL). Returns at once. A host that has ended is
        not an error.
        """
        ...

    def reap(self, job_id: str) -> None:
        """Removes all that is left of a job's hosts, except their directories. A host that still runs is killed.

        May be repeated, even if the hosts have vanished. Raises RuntimeUnavailable.
        """
        ...
