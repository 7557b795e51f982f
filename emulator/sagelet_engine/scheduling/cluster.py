"""Submits waiting jobs to a cluster's queue. Starts each job that got its nodes; the others show why they wait.

The cluster decides which job runs. `--max-jobs` and `--max-hosts` limit this machine only and do not apply here.
Waiting jobs need no thread each: one query of the cluster serves all of them.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import ClientFault, JobNotFound, RuntimeUnavailable, is_known
from sagelet_engine.instances.catalogue import gpu_count
from sagelet_engine.instances.gpus import ClusterGpus, Lease, NoCapacity
from sagelet_engine.model import lifecycle, verdict
from sagelet_engine.model.cluster import AllocationRequest, AllocationState, AllocationStatus, Cluster, Refused
from sagelet_engine.model.job import Job, SecondaryStatus, StopCause, Verdict
from sagelet_engine.scheduling.warm_pools import WarmPools
from sagelet_engine.store.jobs import StaleRecord, Store

log = logging.getLogger(__name__)

#: Seconds between looks at the cluster, while a job waits.
LOOK_SECONDS = 1.0
#: Seconds until a cluster that did not answer is asked again.
RETRY_SECONDS = 3.0
#: Parts of the message of a cluster that is too small for a request. The job then fails with AWS's CapacityError.
_TOO_LARGE = ("configuration is not available", "Node count specification", "More processors requested")


@dataclass
class _Waiting:
    launch_id: str
    submitted: bool = False
    #: The reason for waiting that the job's status shows.
    told: str = ""
    #: The end of MaxWaitTimeInSeconds, ms since the epoch.
    deadline_ms: int | None = None


class ClusterScheduler(threading.Thread):
    """The scheduler for a runtime with a cluster. It calls `start` with each job that got its nodes.

    A warm pool keeps no nodes of a cluster, so no job can reuse it. It ends when its time is over.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        cluster: Cluster,
        gpus: ClusterGpus,
        start: Callable[[Job], None],
        warm: WarmPools,
        refusal: Callable[[Job], Verdict | None],
        *,
        grace_seconds: int,
    ) -> None:
        super().__init__(name="scheduler", daemon=True)
        self._store = store
        self._clock = clock
        self._cluster = cluster
        self._gpus = gpus
        self._start_job = start
        self._warm = warm
        self._refusal = refusal
        self._grace_seconds = grace_seconds
        self._guard = threading.Lock()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        #: The id of the waiting job that is being submitted now.
        self._busy: str | None = None
        self._running: set[str] = set()
        self._wake = threading.Event()
        self._closed = False

    def submit(self, job: Job) -> None:
        """Queues a job, unless it waits or runs already. Returns at once."""
        with self._guard:
            if job.id in self._waiting or job.id in self._running:
                return
            self._waiting[job.id] = _Waiting(job.launch_id, deadline_ms=job.max_wait_ms)
        self.wake()

    def occupy(self, job: Job) -> None:
        """Counts a job that got its nodes before a restart and keeps them."""
        with self._guard:
            self._running.add(job.id)

    def withdraw(self, job_id: str) -> bool:
        """Takes a job out of the queue. Returns False if it does not wait, or is being submitted now.

        The allocation is not cancelled here, but when the job's hosts are reaped.
        """
        with self._guard:
            if job_id == self._busy:
                return False
            return self._waiting.pop(job_id, None) is not None

    def ended(self, job: Job) -> None:
        """Notes that a job ended, or that an attempt gave its nodes back. In the second case the job queues again."""
        with self._guard:
            self._running.discard(job.id)
        if not job.terminal:
            self.submit(job)
        elif job.pool_available:
            self._warm.hold(job)
            self.wake()
        else:
            self._warm.drop(job)

    def wake(self) -> None:
        """Looks at the queue again."""
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        self._cluster.close()

    def run(self) -> None:
        pause: float | None = None
        while not self._closed:
            self._wake.wait(pause)
            self._wake.clear()
            try:
                pause = self._look()
            except RuntimeUnavailable as error:
                log.warning("the cluster's queue cannot be seen: %s", error)
                pause = RETRY_SECONDS
            except Exception as error:
                # The jobs are durable and stay queued.
                log.error("looking after waiting jobs failed; trying again: %s", error, exc_info=not is_known(error))
                pause = RETRY_SECONDS

    def _look(self) -> float | None:
        """Submits new jobs and handles what the cluster reports. Returns the seconds until the next look, or None."""
        for job in self._warm.expire(self._clock.now_ms()):
            self.ended(job)
        self._submit_new()
        self._give_up_overdue()
        if any(waiting.submitted for waiting in self._all().values()):
            self._take_in(self._cluster.statuses())
        return LOOK_SECONDS if self._all() or self._warm.keys() else None

    def _all(self) -> dict[str, _Waiting]:
        with self._guard:
            return dict(self._waiting)

    def _submit_new(self) -> None:
        """Submits new jobs in order, for at most LOOK_SECONDS, so that submitted jobs are looked at in between."""
        until = time.monotonic() + LOOK_SECONDS
        for job_id, waiting in self._all().items():
            if self._closed or time.monotonic() > until:
                self.wake()
                return
            if not waiting.submitted:
                self._with_job(job_id, partial(self._submit, waiting=waiting))

    def _with_job(self, job_id: str, work: Callable[[Job], None]) -> None:
        """Calls `work` with the newest record of a waiting job. The job cannot be withdrawn meanwhile.

        If the job was stopped, it leaves the queue instead.
        """
        with self._guard:
            if job_id not in self._waiting:
                return
            self._busy = job_id
        try:
            while True:
                job = self._store.get_by_id(job_id)
                if job.stop_ms is not None:
                    self._let_go(job)
                    return
                try:
                    work(job)
                    return
                except StaleRecord:
                    continue
        except JobNotFound:
            self._leave(job_id)
        finally:
            with self._guard:
                self._busy = None

    def _submit(self, job: Job, waiting: _Waiting) -> None:
        if (outcome := self._refusal(job)) is not None:
            self._fail(job, outcome)
            return
        try:
            lease = self._gpus.lease(job.spec.instance_groups, self._cluster.gpus_per_node)
            self._cluster.submit(self._order(job, lease))
        except (Refused, ClientFault) as error:
            large = any(text in str(error) for text in _TOO_LARGE)
            self._fail(job, verdict.capacity_error(str(error)) if large else verdict.client_error(str(error)))
        except NoCapacity as error:
            self._fail(job, verdict.capacity_error(str(error)))
        except RuntimeUnavailable as error:
            self._tell(job, waiting, str(error))
            raise
        else:
            waiting.submitted = True

    def _order(self, job: Job, lease: Lease) -> AllocationRequest:
        types = [group.instance_type for group in job.spec.instance_groups for _ in group.hosts]
        return AllocationRequest(
            job.launch_id,
            job.key.name,
            tuple(types),
            # All nodes of an allocation get the same number.
            gpus=max(map(gpu_count, types)) if lease.gpus else 0,
            seconds=max(0, job.spec.max_runtime_seconds - job.running_ms(self._clock.now_ms()) // 1000),
            grace_seconds=self._grace_seconds,
            role=job.spec.role,
            tags=job.tags,
            account=job.key.account,
            region=job.key.region,
        )

    def _take_in(self, statuses: Mapping[str, AllocationStatus]) -> None:
        for job_id, waiting in self._all().items():
            if self._closed:
                return
            if not waiting.submitted:
                continue
            status = statuses.get(waiting.launch_id, AllocationStatus(AllocationState.OVER))
            if status.state is AllocationState.QUEUED and status.reason == waiting.told:
                continue
            self._with_job(job_id, partial(self._heed, waiting=waiting, status=status))

    def _heed(self, job: Job, waiting: _Waiting, status: AllocationStatus) -> None:
        if status.state is AllocationState.QUEUED:
            self._tell(job, waiting, status.reason)
            return
        # A job whose allocation is over starts, too: its hosts then report how the allocation ended.
        lease = self._gpus.lease(job.spec.instance_groups, self._cluster.gpus_per_node)
        now = self._clock.now_ms()
        log.info("%s: %s", job.key.name, status.reason)
        placed = self._store.update(
            lifecycle.advance(
                job, job.secondary, now, lifecycle.preparing(job, lease.stand_in),
                placed_ms=status.started_ms or now, gpus=lease.gpus, stand_in=lease.stand_in,
            )
        )  # fmt: skip
        self._let_go(placed)

    def _tell(self, job: Job, waiting: _Waiting, reason: str) -> None:
        """Sets the job to Pending, "waiting for capacity", with the cluster's own reason."""
        message = (
            f"{lifecycle.message_of(SecondaryStatus.PENDING, job.key.kind)} ({reason})"
            if reason not in ("", "None")
            else None
        )
        self._store.update(lifecycle.advance(job, SecondaryStatus.PENDING, self._clock.now_ms(), message))
        waiting.told = reason

    def _give_up_overdue(self) -> None:
        """Stops jobs whose MaxWaitTimeInSeconds is over. A supervisor takes them to their end, as after every stop."""
        now = self._clock.now_ms()
        for job_id, waiting in self._all().items():
            if waiting.deadline_ms is not None and now >= waiting.deadline_ms:
                self._with_job(job_id, partial(self._give_up, now=now))

    def _give_up(self, job: Job, now: int) -> None:
        self._let_go(self._store.update(lifecycle.request_stop(job, StopCause.MAX_WAIT, now)))

    def _fail(self, job: Job, outcome: Verdict) -> None:
        now = self._clock.now_ms()
        self._store.update(lifecycle.advance(job, outcome.status, now, failure_reason=outcome.failure_reason))
        self._leave(job.id)

    def _let_go(self, job: Job) -> None:
        """Takes a job out of the queue. Its supervisor goes on with it."""
        with self._guard:
            self._waiting.pop(job.id, None)
            self._running.add(job.id)
        self._start_job(job)

    def _leave(self, job_id: str) -> None:
        with self._guard:
            self._waiting.pop(job_id, None)
