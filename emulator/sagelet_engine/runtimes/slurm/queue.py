"""This server's jobs in Slurm's queue: each is submitted once, and one query looks at all of them."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sagelet_engine.base import json_files
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model.cluster import AllocationRequest, AllocationState, AllocationStatus, ClusterContext, Refused
from sagelet_engine.runtimes.slurm import files
from sagelet_engine.runtimes.slurm import script as slurm_script
from sagelet_engine.runtimes.slurm.commands import Slurm, SlurmJob
from sagelet_engine.runtimes.slurm.remote_files import MakeRemoteFiles, RemoteFiles
from sagelet_engine.runtimes.slurm.rules import SlurmRules
from sagelet_engine.runtimes.slurm.sizes import NodeKind, size_options

#: Seconds between looks at the queue. They grow if the controller is slow, since it serves others, too.
LOOK_S = 1.0
#: The result of a look is used for this many times the seconds that the look took.
SHARE = 20
#: Seconds between looks at the nodes' sizes.
KINDS_S = 60.0
WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
UNDER_WAY = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING"})
#: States in which a cancellation would change how Slurm reports the job's end.
HOLDING = (WAITING | UNDER_WAY) - {"COMPLETING", "STAGE_OUT"}


class SlurmQueue:
    """Allocations of one server. Servers may share a cluster and a user: each sees only those of its `owner`, the
    data directory's id.
    """

    def __init__(
        self,
        slurm: Slurm,
        state_dir: Path,
        owner: str,
        python: str,
        rules: SlurmRules,
        remote_files: MakeRemoteFiles | None = None,
        afterwards: Sequence[str] = (),
        *,
        sized: bool = True,
    ) -> None:
        """`python`: the nodes' interpreter. `rules`: the user's rules for partitions and the like.

        `remote_files`: None if nodes see the data directory. `afterwards`: see `slurm_script.script`.
        `sized`: jobs ask for the CPUs and the memory of their instance type.
        """
        self._slurm = slurm
        self._state_dir = state_dir
        self._owner = owner
        self._python = python
        self._rules = rules
        self._remote_files = remote_files
        self._afterwards = tuple(afterwards)
        self._sized = sized
        self.staging: RemoteFiles | None = None
        self._guard = threading.Lock()
        self._jobs: Mapping[str, SlurmJob] = {}
        self._stale_at = 0.0
        #: The nodes' sizes, and until when they are used.
        self._kinds: tuple[list[NodeKind], float] | None = None

    def directory(self, job_id: str) -> Path:
        return (self._state_dir / quote(job_id, safe="")).absolute()

    def submit(self, order: AllocationRequest) -> None:
        """See the port. First looks for a submission of an earlier server that ended before it noted the number."""
        directory = self.directory(order.job_id)
        directory.mkdir(parents=True, exist_ok=True)
        with _alone(directory) as lock:
            known = json_files.read_json(directory / files.JOB)
            if known is not None and known["number"] is not None:
                return
            number = self._submitted_before(order.job_id) if known is not None else None
            if number is None:
                json_files.write_json(directory / files.JOB, {"number": None})
                number = self._submit(order, directory, lock)
            json_files.write_json(directory / files.JOB, {"number": number})
            with self._guard:  # a running look does not include the new job
                self._stale_at = 0.0

    def attach(self, context: ClusterContext) -> None:
        """See the port."""
        if self._remote_files is not None:
            self.staging = self._remote_files(self._state_dir, context, self._python)
            self.staging.start()

    def close(self) -> None:
        """See the port."""
        if self.staging is not None:
            self.staging.stop()

    def statuses(self) -> Mapping[str, AllocationStatus]:
        return {job_id: status_of(job) for job_id, job in self.look().items()}

    def gpus_per_node(self) -> int:
        return max((kind.gpus for kind in self._node_kinds()), default=0)

    def _node_kinds(self) -> list[NodeKind]:
        if self._kinds is None or time.monotonic() >= self._kinds[1]:
            self._kinds = self._slurm.node_kinds(), time.monotonic() + KINDS_S
        return self._kinds[0]

    def number(self, job_id: str) -> int | None:
        """Returns Slurm's number of an allocation, or None if it was never submitted."""
        known = json_files.read_json(self.directory(job_id) / files.JOB)
        return None if known is None else known["number"]

    def job(self, job_id: str) -> SlurmJob | None:
        """Returns what Slurm knows about an allocation, about a second old, or None if Slurm has forgotten it."""
        return self.look().get(job_id)

    def state(self, job_id: str) -> str | None:
        """Returns the current state of one allocation, or None if Slurm has forgotten it."""
        number = self.number(job_id)
        return None if number is None else self._slurm.state(number)

    def accounted(self, job_id: str) -> str | None:
        """Returns the state of an allocation that the controller has forgotten, or None if accounting lacks it, too."""
        number = self.number(job_id)
        return None if number is None else self._slurm.accounted(number)

    def cancel(self, job_id: str) -> None:
        """Cancels the allocation in any state. A missing one is not an error.

        The allocation is looked up in Slurm. Slurm may have reused a number that is noted on the disk, or the number
        may belong to the directory that this one is a copy of.
        """
        known = self.number(job_id) is not None
        if (job := self.look(anew=not known).get(job_id)) is not None:
            self._slurm.cancel(job.number)

    def jobs(self) -> set[str]:
        """Returns the jobs that have a waiting or running allocation under the current name of the data directory."""
        there = [job for job in self.look(anew=True).values() if job.state in WAITING | UNDER_WAY]
        return {found for job in there if (found := slurm_script.job_id_of(job.comment, self._owner))}

    def look(self, *, anew: bool = False) -> Mapping[str, SlurmJob]:
        """Returns all allocations of this server that Slurm knows. Raises RuntimeUnavailable."""
        with self._guard:
            begun = time.monotonic()
            if anew or begun >= self._stale_at:
                found = ((slurm_script.job_id_of(job.comment, self._owner), job) for job in self._slurm.jobs())
                self._jobs = {job_id: job for job_id, job in found if job_id is not None}
                took = time.monotonic() - begun
                self._stale_at = time.monotonic() + max(LOOK_S, SHARE * took)
            return self._jobs

    def _submitted_before(self, job_id: str) -> int | None:
        job = self.look(anew=True).get(job_id)
        return None if job is None else job.number

    def _submit(self, order: AllocationRequest, directory: Path, lock: int) -> int:
        staging = self.staging
        prologue, around = ("", []) if staging is None else (staging.prologue(order, directory), staging.around)
        text = slurm_script.script(directory, self._python, prologue, around, self._afterwards)
        try:
            placement = self._rules.placement(order.role, order.tags, order.instance_types)
            size = size_options(order, placement, self._node_kinds()) if self._sized else []
            options = slurm_script.options(order, placement, directory, self._owner, size, shared=staging is None)
            return self._slurm.submit(options, text, hold=lock)
        except (Refused, ClientFault):
            (directory / files.JOB).unlink()
            raise


def status_of(job: SlurmJob) -> AllocationStatus:
    started_ms = None if job.start is None else job.start * 1000
    if job.state in WAITING:
        return AllocationStatus(AllocationState.QUEUED, job.reason)
    if job.state in UNDER_WAY:
        return AllocationStatus(AllocationState.GRANTED, f"job {job.number} on {job.nodes}", started_ms)
    return AllocationStatus(AllocationState.OVER, f"job {job.number}: {job.state}", started_ms)


@contextmanager
def _alone(directory: Path) -> Iterator[int]:
    """Allows one submission at a time, in all processes. sbatch holds the lock, too, so it outlives a killed server."""
    descriptor = os.open(directory / files.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
