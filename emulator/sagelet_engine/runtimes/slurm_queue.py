"""This server's orders in Slurm's queue: submitted once each, and looked at all together."""

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sagelet_engine.errors import ClientFault
from sagelet_engine.runtimes import host_files, slurm_script
from sagelet_engine.runtimes import slurm_files as files
from sagelet_engine.runtimes.cluster import Ground, Order, Place, Refused, Standing
from sagelet_engine.runtimes.courier import Courier
from sagelet_engine.runtimes.slurm_commands import Slurm, SlurmJob
from sagelet_engine.runtimes.slurm_rules import SlurmRules
from sagelet_engine.runtimes.slurm_sizes import NodeKind, size_options
from sagelet_engine.runtimes.slurm_staging import Staging

#: Seconds between looks at the queue. Longer where the controller needs long: it is there for others, too.
LOOK_S = 1.0
#: As long as a look took, times this, is how old it may get.
SHARE = 20
#: Seconds between looks at what the nodes have.
KINDS_S = 60.0
WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
UNDER_WAY = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "SIGNALING", "STAGE_OUT", "STOPPED", "RESIZING"})
#: To be cancelled would change what Slurm calls its end.
HOLDING = (WAITING | UNDER_WAY) - {"COMPLETING", "STAGE_OUT"}


class SlurmQueue:
    """`owner` tells apart the servers that share one cluster and one user: each sees its own orders only.

    `former`: other names of the data directory, by which older orders know it.
    """

    def __init__(
        self,
        slurm: Slurm,
        state_dir: Path,
        owner: str,
        python: str,
        rules: SlurmRules,
        data: Path | None = None,
        afterwards: Sequence[str] = (),
        *,
        former: Sequence[str] = (),
        sized: bool = True,
    ) -> None:
        """`python`: the nodes' interpreter; `rules`: the user's, for partitions and the like.

        `data`: the data directory, where nodes do not see it. `afterwards`: see `slurm_script.script`.
        `sized`: jobs ask for the CPUs and the memory of their instance type.
        """
        self._slurm = slurm
        self._state_dir = state_dir
        self._owner = owner
        self._owners = (owner, *former)
        self._python = python
        self._rules = rules
        self._data = data
        self._afterwards = tuple(afterwards)
        self._sized = sized
        self.staging: Staging | None = None
        self._guard = threading.Lock()
        self._jobs: Mapping[str, SlurmJob] = {}
        self._stale_at = 0.0
        #: What the nodes have, and until when that is believed.
        self._kinds: tuple[list[NodeKind], float] | None = None

    def directory(self, job_id: str) -> Path:
        return (self._state_dir / quote(job_id, safe="")).absolute()

    def submit(self, order: Order) -> None:
        """See the port. What may have gone wrong before an earlier server could write it down is looked up."""
        directory = self.directory(order.job_id)
        directory.mkdir(parents=True, exist_ok=True)
        with _alone(directory) as lock:
            known = host_files.read_json(directory / files.JOB)
            if known is not None and known["number"] is not None:
                return
            number = self._submitted_before(order.job_id) if known is not None else None
            if number is None:
                host_files.write_json(directory / files.JOB, {"number": None})
                number = self._submit(order, directory, lock)
            host_files.write_json(directory / files.JOB, {"number": number})
            with self._guard:  # a look that is under way does not know of it
                self._stale_at = 0.0

    def attach(self, ground: Ground) -> None:
        """See the port."""
        if self._data is not None:
            courier = Courier(self._data.absolute(), self._state_dir.absolute() / ".courier", ground.objects)
            self.staging = Staging(self._data, courier, ground, self._python)
            self.staging.start()

    def close(self) -> None:
        """See the port."""
        if self.staging is not None:
            self.staging.stop()

    def standings(self) -> Mapping[str, Standing]:
        return {job_id: standing(job) for job_id, job in self.look().items()}

    def gpus_per_node(self) -> int:
        return max((kind.gpus for kind in self._node_kinds()), default=0)

    def _node_kinds(self) -> list[NodeKind]:
        if self._kinds is None or time.monotonic() >= self._kinds[1]:
            self._kinds = self._slurm.node_kinds(), time.monotonic() + KINDS_S
        return self._kinds[0]

    def number(self, job_id: str) -> int | None:
        """Slurm's number of an order; None: it was never submitted."""
        known = host_files.read_json(self.directory(job_id) / files.JOB)
        return None if known is None else known["number"]

    def job(self, job_id: str) -> SlurmJob | None:
        """What Slurm knows of an order, about a second old; None: it has forgotten it."""
        return self.look().get(job_id)

    def state(self, job_id: str) -> str | None:
        """Of an order, as of now, by a look at it alone; None: Slurm has forgotten it."""
        number = self.number(job_id)
        return None if number is None else self._slurm.state(number)

    def accounted(self, job_id: str) -> str | None:
        """The state of an order that the controller has forgotten; None where no accounting knows it either."""
        number = self.number(job_id)
        return None if number is None else self._slurm.accounted(number)

    def cancel(self, job_id: str) -> None:
        """The order, wherever it stands; none is no error.

        Slurm says which it is: a number on the disk may be another's order by now, or a copied directory's original's.
        """
        known = self.number(job_id) is not None
        if (job := self.look(anew=not known).get(job_id)) is not None:
            self._slurm.cancel(job.number)

    def jobs(self) -> set[str]:
        """Those with an order under today's name that waits or is under way."""
        there = [job for job in self.look(anew=True).values() if job.state in WAITING | UNDER_WAY]
        return {found for job in there if (found := slurm_script.job_id_of(job.comment, (self._owner,)))}

    def look(self, *, anew: bool = False) -> Mapping[str, SlurmJob]:
        """All orders of this server that Slurm knows. Raises RuntimeUnavailable."""
        with self._guard:
            begun = time.monotonic()
            if anew or begun >= self._stale_at:
                found = ((slurm_script.job_id_of(job.comment, self._owners), job) for job in self._slurm.jobs())
                self._jobs = {job_id: job for job_id, job in found if job_id is not None}
                took = time.monotonic() - begun
                self._stale_at = time.monotonic() + max(LOOK_S, SHARE * took)
            return self._jobs

    def _submitted_before(self, job_id: str) -> int | None:
        job = self.look(anew=True).get(job_id)
        return None if job is None else job.number

    def _submit(self, order: Order, directory: Path, lock: int) -> int:
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


def standing(job: SlurmJob) -> Standing:
    started_ms = None if job.start is None else job.start * 1000
    if job.state in WAITING:
        return Standing(Place.QUEUED, job.reason)
    if job.state in UNDER_WAY:
        return Standing(Place.GRANTED, f"job {job.number} on {job.nodes}", started_ms)
    return Standing(Place.OVER, f"job {job.number}: {job.state}", started_ms)


@contextmanager
def _alone(directory: Path) -> Iterator[int]:
    """One submission at a time, in all processes. The lock is sbatch's, too: it outlives a server that is killed."""
    descriptor = os.open(directory / files.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)
