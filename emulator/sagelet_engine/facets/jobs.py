"""Training jobs: creating, finding, stopping, changing and deleting them."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.database import NotFlushed
from sagelet_engine.base.errors import JobNotFound, JobNotStoppable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.execution.supervisors import Supervisors
from sagelet_engine.model import faults, lifecycle, training, warm_pools
from sagelet_engine.model.job import JobKey, StopCause
from sagelet_engine.model.listing import JobPage, JobQuery, ListedJob
from sagelet_engine.model.search import JobSearch, SearchPage
from sagelet_engine.model.session import JobSession, job_id_of, session_key
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.retention.gc import Collector
from sagelet_engine.scheduling.contract import Scheduler
from sagelet_engine.store.jobs import StaleRecord, Store


class Jobs:
    """The training jobs of all accounts and regions. Changes are durable when a method returns."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        keys: KeyPair,
        scheduler: Scheduler,
        supervisors: Supervisors,
        supervise: Callable[[TrainingJob], None],
        collector: Collector,
        spot_discount: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._keys = keys
        self._scheduler = scheduler
        self._supervisors = supervisors
        self._supervise = supervise
        self._collector = collector
        self._spot_discount = spot_discount

    # --- changes ----------------------------------------------------------------------------------------------

    def create(self, key: JobKey, request: dict[str, Any], tags: dict[str, str]) -> TrainingJob:
        """Makes a job durable and queues it. `request`: a validated CreateTrainingJob body. Raises JobNameInUse."""
        job = training.create(key, uuid.uuid4().hex, request, tags, self._clock.now_ms(), self._spot_discount)
        failpoint(Failpoint.BEFORE_INSERT)
        try:
            self._store.insert(job)
        except NotFlushed:
            # The client gets an error, although the job exists.
            self._scheduler.submit(job)
            raise
        failpoint(Failpoint.AFTER_INSERT)
        self._scheduler.submit(job)
        failpoint(Failpoint.BEFORE_ANSWER)
        return job

    def stop(self, key: JobKey) -> None:
        """Asks a job to stop. A second call changes nothing. Raises JobNotFound, JobNotStoppable."""
        while True:
            job = self._store.get(key)
            if job.terminal:
                raise JobNotStoppable(job.status.value)
            try:
                failpoint(Failpoint.BEFORE_STOP)
                job = self._store.update(lifecycle.request_stop(job, StopCause.USER, self._clock.now_ms()))
                failpoint(Failpoint.AFTER_STOP)
                break
            except StaleRecord:
                continue
        if self._scheduler.withdraw(job.id):
            self._supervise(job)
        self._scheduler.wake()
        self._supervisors.notify(job)

    def interrupt(self, key: JobKey) -> TrainingJob:
        """Takes a managed spot job's instances away, so that it starts again. Raises JobNotFound,
        JobNotInterruptible.
        """
        while True:
            job = self._store.get(key)
            try:
                job = self._store.update(lifecycle.interrupt(job, self._clock.now_ms()))
                failpoint(Failpoint.AFTER_INTERRUPT)
                break
            except StaleRecord:
                continue
        self._supervisors.notify(job)
        return job

    def update(self, key: JobKey, change: Callable[[TrainingJob], Mapping[str, Any]]) -> TrainingJob:
        """Replaces the members of the request that `change` returns. Raises JobNotFound, and what `change` raises.

        A job that has ended can only change its warm pool's period: the pool lasts longer, or ends at once.
        """
        while True:
            job = self._store.get(key)
            request = {**job.request, **change(job)}
            if request == job.request:
                return job
            now = self._clock.now_ms()
            changed = replace(job, request=request, modified_ms=max(job.modified_ms, now))
            try:
                job = self._store.update(warm_pools.after_update(changed, now))
            except StaleRecord:
                continue
            if job.terminal:
                self._scheduler.ended(job)
            return job

    def delete(self, key: JobKey) -> None:
        """Deletes a job; see Collector.forget. Raises JobNotFound, JobNotDeletable, WarmPoolAvailable,
        DirectoryStays.
        """
        self._collector.forget(self._store.get(key))

    def put_tags(self, key: JobKey, tags: Mapping[str, str], limit: int) -> None:
        """Adds all tags or none. Raises JobNotFound, TooManyTags."""
        job = self._store.get(key)
        self._store.put_tags(job.id, tags, limit)
        self._supervisors.notify(job)

    def delete_tags(self, key: JobKey, keys: Sequence[str]) -> None:
        """Deletes tags. Raises JobNotFound."""
        job = self._store.get(key)
        self._store.delete_tags(job.id, keys)
        self._supervisors.notify(job)

    def throttles(self, job: TrainingJob) -> bool:
        """True if the job's tag throttles this call. Counts the call if so."""
        limit = faults.of(job).throttled
        return limit > 0 and self._store.throttle(job.id, limit)

    # --- lookups ----------------------------------------------------------------------------------------------

    def get(self, key: JobKey) -> TrainingJob:
        """Returns a job. Raises JobNotFound."""
        return self._store.get(key)

    def by_id(self, job_id: str) -> TrainingJob:
        """Returns a job by its id. Raises JobNotFound."""
        return self._store.get_by_id(job_id)

    def session(self, token: str) -> JobSession | None:
        """Returns the job that a session token belongs to, ended or not. None if there is no such job (any more)."""
        job_id = job_id_of(self._keys, token)
        if job_id is None:
            return None
        try:
            return JobSession(self._store.get_by_id(job_id), session_key(self._keys, job_id))
        except JobNotFound:
            return None

    def page(self, query: JobQuery) -> JobPage[TrainingJob]:
        return self._store.page(query)

    def listing(self, query: JobQuery) -> JobPage[ListedJob]:
        """Returns the same jobs, each with what a list shows."""
        return self._store.listing(query)

    def search(self, query: JobSearch) -> SearchPage:
        return self._store.search(query)

    def unfinished(self) -> list[TrainingJob]:
        """Returns every job that has not ended, the oldest first, of all accounts and regions."""
        return self._store.unfinished()

    def counts(self, account: str, region: str) -> dict[str, int]:
        """Returns the number of jobs by TrainingJobStatus."""
        return self._store.counts_of(account, region)

    def places(self) -> list[tuple[str, str]]:
        """Returns every account and region that has jobs."""
        return self._store.places()

    def property_names(self, account: str, region: str, beginning: str, limit: int) -> list[str]:
        """Returns names of properties; see Store.property_names."""
        return self._store.property_names(account, region, beginning, limit)
