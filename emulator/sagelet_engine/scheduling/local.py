"""Gives waiting jobs their hosts, oldest first. A job that has to wait is Pending, "waiting for capacity".

Jobs wait in order of arrival. An index by match key finds those that could take a warm pool's hosts. Jobs that come
one after another while no place is free are set to Pending together.
"""

import logging
import threading
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import is_known
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.instances.gpus import GpuPool, Lease, NoCapacity
from sagelet_engine.model import lifecycle, verdict, warm_pools
from sagelet_engine.model.job import Job, SecondaryStatus, StopCause, Verdict
from sagelet_engine.scheduling.warm_pools import WarmPools
from sagelet_engine.store.jobs import StaleRecord, Store


class WaitingJobs:
    """Ids of waiting jobs, in order. Each operation takes constant time. Not thread-safe."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, str | None] = OrderedDict()
        self._by_key: defaultdict[str, OrderedDict[str, None]] = defaultdict(OrderedDict)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, job_id: str, key: str | None) -> None:
        """Appends a job. `key`: see `warm_pools.match_key`."""
        self._keys[job_id] = key
        if key is not None:
            self._by_key[key][job_id] = None

    def remove(self, job_id: str) -> None:
        key = self._keys.pop(job_id)
        if key is not None:
            del self._by_key[key][job_id]
            if not self._by_key[key]:
                del self._by_key[key]

    def head(self) -> str:
        return next(iter(self._keys))

    def first_with(self, keys: Iterable[str]) -> str | None:
        """Returns the first waiting job with one of the keys, or None."""
        return next((next(iter(self._by_key[key])) for key in keys if key in self._by_key), None)


log = logging.getLogger(__name__)

#: Seconds until the next look at the queue after a failed one.
RETRY_SECONDS = 1.0
#: Seconds between looks at the clock while a waiting job's MaxWaitTimeInSeconds or a warm pool's period runs.
POLL_S = 0.5
#: Real seconds until a job that has to wait is set to Pending, together with those that have come meanwhile.
GATHER_S = 0.02
#: The most jobs that one transaction sets to Pending.
TOLD_AT_ONCE = 20


class LocalScheduler(threading.Thread):
    """First in, first out; `max_jobs` jobs and `max_hosts` hosts at a time; GPUs by lease.

    It calls `start` with each job that got its hosts. A job for which `refusals` returns a verdict ends instead of
    waiting. A warm pool keeps its job's place, hosts and GPUs. The first waiting job that matches the pool gets them,
    ahead of all others.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        pool: GpuPool,
        max_jobs: int,
        start: Callable[[Job], None],
        warm: WarmPools,
        refusals: Callable[[Sequence[Job]], Sequence[Verdict | None]],
        *,
        max_hosts: int,
    ) -> None:
        super().__init__(name="scheduler", daemon=True)
        self._store = store
        self._clock = clock
        self._pool = pool
        self._max_jobs = max_jobs
        self._max_hosts = max_hosts
        self._start_job = start
        self._warm = warm
        self._refusals = refusals
        self._guard = threading.Lock()
        self._waiting = WaitingJobs()
        #: The waiting job that is being placed now.
        self._placing: str | None = None
        #: Number of hosts of each job that has its place.
        self._running: dict[str, int] = {}
        #: Jobs that are not set to Pending yet. Some of them may run by now.
        self._untold: deque[str] = deque()
        #: When the first of them came, by time.monotonic.
        self._untold_since = 0.0
        #: The end of MaxWaitTimeInSeconds of waiting spot jobs, ms since the epoch.
        self._deadlines: dict[str, int] = {}
        self._wake = threading.Event()
        self._closed = False

    def submit(self, job: Job) -> None:
        """Queues a job, unless it waits or runs already. Returns at once."""
        with self._guard:
            if job.id in self._waiting or job.id in self._running:
                return
            key = warm_pools.match_key(job)
            self._waiting.add(job.id, key)
            # Otherwise the thread looks again soon, and finds this job, too.
            looks = len(self._running) < self._max_jobs or not self._untold or self._warm.offers(key)
            if not self._untold:
                self._untold_since = time.monotonic()
            self._untold.append(job.id)
            if job.max_wait_ms is not None:
                self._deadlines[job.id] = job.max_wait_ms
        if looks:
            self.wake()

    def occupy(self, job: Job) -> None:
        """Counts a job that got its place before a restart and keeps it."""
        with self._guard:
            self._running[job.id] = len(job.hosts)
        self._pool.restore(job.id, job.gpus)

    def withdraw(self, job_id: str) -> bool:
        """Takes a job out of the queue. Returns False if it does not wait (it runs, or is being placed now)."""
        with self._guard:
            if job_id not in self._waiting or job_id == self._placing:
                return False
            self._waiting.remove(job_id)
            return True

    def ended(self, job: Job) -> None:
        """Frees the place and the GPUs of a job that ended, or whose warm pool ended. An available pool keeps them.

        Call it again after the pool's period has changed.
        """
        if job.pool_available:
            self._warm.hold(job)
            self.wake()
            return
        self.release(job.id)
        self._warm.drop(job)

    def release(self, job_id: str) -> None:
        """Frees the place and the GPUs of a job."""
        with self._guard:
            self._running.pop(job_id, None)
        self._pool.release(job_id)
        self.wake()

    def wake(self) -> None:
        """Looks at the queue again."""
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def run(self) -> None:
        # No pause at first: a warm pool of an earlier server may be over.
        pause: float | None = 0
        while not self._closed:
            self._wake.wait(pause)
            self._wake.clear()
            try:
                pause = self._look()
            except Exception as error:
                # The jobs are durable and stay queued.
                log.error("placing waiting jobs failed; trying again: %s", error, exc_info=not is_known(error))
                pause = RETRY_SECONDS

    def _look(self) -> float | None:
        """Places the jobs that fit, then sets a few others to Pending. Returns the seconds until the next look.

        It sets only a few jobs to Pending at a time, so that a place that becomes free is given away first.
        """
        for job in self._warm.expire(self._clock.now_ms()):
            self.ended(job)
        while not self._closed and (job_id := self._take_matching()) is not None:
            if not self._try_to_place(job_id, self._reuse):
                break
        while not self._closed and (job_id := self._take()) is not None:
            if not self._try_to_place(job_id, self._assign):
                break
        for job_id in self._overdue():
            self._give_up(job_id)
        self._tell_next()
        if self._untold:
            return 0 if len(self._untold) >= TOLD_AT_ONCE else GATHER_S
        return POLL_S if self._deadlines or self._warm.keys() else None

    def _overdue(self) -> list[str]:
        """Returns waiting jobs whose time is over. Forgets the deadlines of jobs that no longer wait."""
        now = self._clock.now_ms()
        with self._guard:
            self._deadlines = {job_id: ms for job_id, ms in self._deadlines.items() if job_id in self._waiting}
            return [job_id for job_id, ms in self._deadlines.items() if now >= ms]

    def _give_up(self, job_id: str) -> None:
        """Stops a job whose MaxWaitTimeInSeconds is over. A supervisor takes it to its end, as after every stop."""
        job = self._store.get_by_id(job_id)
        try:
            job = self._store.update(lifecycle.request_stop(job, StopCause.MAX_WAIT, self._clock.now_ms()))
        except StaleRecord:
            log.debug("%s: changed while it waited; looking again", job.key.name)
            return
        if self.withdraw(job_id):
            self._run_job(job)

    def _take(self) -> str | None:
        """Returns the head of the queue if a place is free. The job cannot be withdrawn while it is being placed."""
        with self._guard:
            if self._waiting and len(self._running) < self._max_jobs:
                self._placing = self._waiting.head()
            return self._placing

    def _take_matching(self) -> str | None:
        """Returns the first waiting job that matches a warm pool."""
        keys = self._warm.keys()
        with self._guard:
            self._placing = self._waiting.first_with(keys)
            return self._placing

    def _try_to_place(self, job_id: str, assign: Callable[[Job], bool]) -> bool:
        """Places a job and returns True, or leaves it where it is in the queue and returns False."""
        placed = False
        try:
            placed = self._place(job_id, assign)
        finally:
            with self._guard:
                self._placing = None
                if placed:
                    self._waiting.remove(job_id)
        return placed or self._heed_stop(job_id)

    def _heed_stop(self, job_id: str) -> bool:
        """Ends a job that stays in the queue, if it was stopped while it was being placed."""
        job = self._store.get_by_id(job_id)
        if job.stop_ms is None or not self.withdraw(job_id):
            return False
        self._run_job(job)
        return True

    def _place(self, job_id: str, assign: Callable[[Job], bool]) -> bool:
        """True if the job leaves the queue: it got its hosts, is being stopped, or can never run."""
        while True:
            try:
                return assign(self._store.get_by_id(job_id))
            except StaleRecord:
                self._pool.release(job_id)
            except Exception:
                self._pool.release(job_id)
                raise

    def _assign(self, job: Job) -> bool:
        if self._reuse(job):
            return True
        if not self._has_room(len(job.hosts)):
            return False
        try:
            lease = self._pool.lease(job.id, job.spec.instance_groups)
        except NoCapacity as error:
            self._end(job, verdict.capacity_error(str(error)))
            return True
        if lease is None:
            return False
        failpoint(Failpoint.BEFORE_PLACING)
        placed = self._store.update(self._placed(job, lease))
        failpoint(Failpoint.AFTER_PLACING)
        self._run_job(placed)
        return True

    def _reuse(self, job: Job) -> bool:
        """Gives a job the hosts of a warm pool that it matches, if there is one. A job that was stopped gets none."""
        if job.stop_ms is not None:
            self._run_job(job)
            return True
        pair = self._warm.reuse(job, self._clock.now_ms())
        if pair is None:
            return False
        owner, taker = pair
        lease = Lease(owner.gpus, owner.stand_in)
        _, placed = self._store.update_all(owner, self._placed(taker, lease))
        failpoint(Failpoint.AFTER_REUSE)
        self._warm.forget(owner.id)
        self.occupy(placed)
        self.release(owner.id)
        self._run_job(placed)
        return True

    def _has_room(self, hosts: int) -> bool:
        """True if the hosts fit. If the limit was lowered below what a waiting job needs, that job runs alone."""
        with self._guard:
            return not self._running or sum(self._running.values()) + hosts <= self._max_hosts

    def _run_job(self, job: Job) -> None:
        with self._guard:
            self._running[job.id] = len(job.hosts)
        self._start_job(job)

    def _placed(self, job: Job, lease: Lease) -> Job:
        now = self._clock.now_ms()
        return lifecycle.advance(
            job,
            job.secondary,
            now,
            lifecycle.preparing(job, lease.stand_in),
            placed_ms=now,
            gpus=lease.gpus,
            stand_in=lease.stand_in,
        )

    def _end(self, job: Job, outcome: Verdict) -> None:
        now = self._clock.now_ms()
        self._store.update(lifecycle.advance(job, outcome.status, now, failure_reason=outcome.failure_reason))

    def _tell_next(self) -> None:
        """Sets the next few jobs to Pending. Raises StoreUnavailable; then the next look tries again."""
        untold = self._next_untold()
        if self._closed or not untold:
            return
        try:
            self._let_wait(untold)
        except StoreUnavailable:
            with self._guard:
                self._untold.extendleft(reversed(untold))
            raise

    def _next_untold(self) -> list[str]:
        """Returns waiting jobs to set to Pending. Empty while others may come that can be set with them."""
        found: list[str] = []
        with self._guard:
            if len(self._untold) < TOLD_AT_ONCE and time.monotonic() - self._untold_since < GATHER_S:
                return []
            while self._untold and len(found) < TOLD_AT_ONCE:
                job_id = self._untold.popleft()
                if job_id in self._waiting:
                    found.append(job_id)
        return found

    def _let_wait(self, job_ids: Sequence[str]) -> None:
        """Sets the jobs to Pending in one transaction, or in one each if a record changes meanwhile.

        Ends those that could not use hosts.
        """
        found = self._store.by_ids(job_ids)
        jobs = [job for job_id in job_ids if (job := found.get(job_id)) and not job.terminal and job.stop_ms is None]
        waiting: list[Job] = []
        for job, outcome in zip(jobs, self._refusals(jobs) if jobs else (), strict=True):
            if outcome is not None:
                self._refuse(job, outcome)
            elif job.secondary is SecondaryStatus.STARTING:
                waiting.append(lifecycle.advance(job, SecondaryStatus.PENDING, self._clock.now_ms()))
        try:
            self._tell(waiting)
        except StaleRecord:
            for job in waiting if len(waiting) > 1 else ():
                self._let_wait([job.id])

    def _refuse(self, job: Job, outcome: Verdict) -> None:
        """Ends a job that could not use hosts. One that has changed meanwhile is judged anew."""
        try:
            self._end(job, outcome)
        except StaleRecord:
            self._let_wait([job.id])
            return
        self.withdraw(job.id)

    def _tell(self, waiting: Sequence[Job]) -> None:
        """Writes records without a flush to disk: after a crash the jobs queue and are set to Pending again.

        Raises StaleRecord.
        """
        if waiting:
            self._store.update_all(*waiting, durable=False)
            failpoint(Failpoint.AFTER_WAITING)
