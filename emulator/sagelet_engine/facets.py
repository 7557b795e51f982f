"""What the API asks the engine for: `engine.jobs`, `.processing`, `.inputs`, `.metrics`.

`engine.tuning`, `.pipelines` and `.reports` are in the packages of those names; `engine.logs` is the store's.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.database import NotFlushed
from sagelet_engine.base.errors import JobNotFound, JobNotStoppable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.data.file_systems import directory_of
from sagelet_engine.execution.supervisors import Supervisors
from sagelet_engine.model import faults, lifecycle, processing, training, warm_pools
from sagelet_engine.model.file_systems import FileSystemSource
from sagelet_engine.model.job import J, Job, JobKey, JobKind, Parent, StopCause
from sagelet_engine.model.listing import JobPage, JobQuery, ListedJob
from sagelet_engine.model.objects import ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.model.principal import NotAuthorized, Principal
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.search import JobSearch, SearchPage
from sagelet_engine.model.series import Sample
from sagelet_engine.model.session import JobSession, job_id_of, session_key
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.retention.gc import Collector
from sagelet_engine.scheduling.contract import Scheduler
from sagelet_engine.scheduling.image_choice import ImageChoice
from sagelet_engine.settings import Settings
from sagelet_engine.store.jobs import StaleRecord, Store


class JobsOf(Generic[J]):
    """The jobs of one kind, of all accounts and regions. Changes are durable when a method returns.

    A key names a job of this kind.
    """

    #: The record of the kind.
    kind: JobKind
    record: type[J]

    def __init__(
        self,
        store: Store,
        clock: Clock,
        scheduler: Scheduler,
        supervisors: Supervisors,
        collector: Collector,
    ) -> None:
        self._store = store
        self._clock = clock
        self._scheduler = scheduler
        self._supervisors = supervisors
        self._collector = collector

    # --- changes ----------------------------------------------------------------------------------------------

    def _insert(self, job: J) -> J:
        """Makes a job durable and queues it. Raises JobNameInUse, also if the id is in use."""
        # A job that nobody can work on would wait for good.
        self._supervisors.load()
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
            job = self.get(key)
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
            self._supervisors.start(job)
        self._scheduler.wake()
        self._supervisors.notify(job)

    def create(self, key: JobKey, request: JsonObject, tags: dict[str, str]) -> J:
        """Makes a job durable and queues it. `request`: a validated body of the kind's Create. Raises JobNameInUse."""
        raise NotImplementedError

    def delete(self, key: JobKey) -> None:
        """Deletes a job; see Collector.forget. Raises JobNotFound, JobNotDeletable, WarmPoolAvailable,
        DirectoryStays.
        """
        self._collector.forget(self.get(key))

    def put_tags(self, key: JobKey, tags: Mapping[str, str], limit: int) -> None:
        """Adds all tags or none. Raises JobNotFound, TooManyTags."""
        job = self.get(key)
        self._store.put_tags(job.id, tags, limit)
        self._supervisors.notify(job)

    def delete_tags(self, key: JobKey, keys: Sequence[str]) -> None:
        """Raises JobNotFound."""
        job = self.get(key)
        self._store.delete_tags(job.id, keys)
        self._supervisors.notify(job)

    def throttles(self, job: J) -> bool:
        """True if the job's tag throttles this call. Counts the call if so."""
        limit = faults.of(job).throttled
        return limit > 0 and self._store.throttle(job.id, limit)

    # --- lookups ----------------------------------------------------------------------------------------------

    def get(self, key: JobKey) -> J:
        """Raises JobNotFound."""
        job = self._store.get(key)
        assert isinstance(job, self.record)
        return job

    def listing(self, query: JobQuery) -> JobPage[ListedJob]:
        """Returns a page of jobs, each with what a list shows."""
        return self._store.listing(replace(query, kind=self.kind))

    def page(self, query: JobQuery) -> JobPage[J]:
        """Returns the same jobs whole."""
        page = self._store.page(replace(query, kind=self.kind))
        return JobPage([job for job in page.jobs if isinstance(job, self.record)], page.next)

    def counts(self, account: str, region: str, name_contains: str = "") -> dict[str, int]:
        """Returns the number of jobs by status. `name_contains`: part of the names, compared without case."""
        return self._store.counts_of(JobQuery(account, region, self.kind, name_contains=name_contains or None))


class Jobs(JobsOf[TrainingJob]):
    """The training jobs, and what is asked about jobs of every kind (`by_id`, `session`, `unfinished`, `places`)."""

    kind, record = JobKind.TRAINING, TrainingJob

    def __init__(
        self,
        store: Store,
        clock: Clock,
        scheduler: Scheduler,
        supervisors: Supervisors,
        collector: Collector,
        keys: KeyPair,
        spot_discount: float,
    ) -> None:
        super().__init__(store, clock, scheduler, supervisors, collector)
        self._keys = keys
        self._spot_discount = spot_discount

    def create(
        self,
        key: JobKey,
        request: JsonObject,
        tags: dict[str, str],
        *,
        parent: Parent | None = None,
        job_id: str | None = None,
    ) -> TrainingJob:
        """`job_id`: given by an orchestration, so that a repeat does not make a second job. Raises JobNameInUse, also
        if the id is in use.
        """
        now_ms, job_id = self._clock.now_ms(), job_id or uuid.uuid4().hex
        return self._insert(training.create(key, job_id, request, tags, now_ms, self._spot_discount, parent))

    def interrupt(self, key: JobKey) -> TrainingJob:
        """Takes a managed spot job's instances away, so that it starts again. Raises JobNotFound,
        JobNotInterruptible.
        """
        while True:
            job = self.get(key)
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
            job = self.get(key)
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

    def end_pool(self, key: JobKey) -> None:
        """Ends the warm pool that a job has left. One that runs will leave its hosts for a second. Raises
        JobNotFound.
        """
        self.update(key, _without_pool)

    def by_id(self, job_id: str) -> Job:
        """Returns a job of any kind. Raises JobNotFound."""
        return self._store.get_by_id(job_id)

    def has_ended(self, job_id: str) -> bool:
        """True if a job of any kind has ended. A forgotten job has."""
        try:
            return self._store.get_by_id(job_id).terminal
        except JobNotFound:
            return True

    def by_ids(self, job_ids: Sequence[str]) -> dict[str, TrainingJob]:
        """Returns those of these training jobs that exist, by their ids."""
        return {job_id: as_training(job) for job_id, job in self._store.by_ids(job_ids).items()}

    def session(self, token: str) -> JobSession | None:
        """Returns the job that a session token belongs to, ended or not. None if there is no such job (any more)."""
        job_id = job_id_of(self._keys, token)
        if job_id is None:
            return None
        try:
            return JobSession(self._store.get_by_id(job_id), session_key(self._keys, job_id))
        except JobNotFound:
            return None

    def search(self, query: JobSearch) -> SearchPage[TrainingJob]:
        found = self._store.search(query)
        return SearchPage([as_training(job) for job in found.jobs], found.total, found.next)

    def search_counts(self, query: JobSearch) -> dict[str, int]:
        """Returns the number of jobs on all pages of a search, by status."""
        return self._store.counts_of(query)

    def unfinished(self) -> list[Job]:
        """Returns every job of any kind that has not ended, the oldest first, of all accounts and regions."""
        return self._store.unfinished()

    def places(self) -> list[tuple[str, str]]:
        """Returns every account and region that has jobs."""
        return self._store.places()

    def property_names(self, account: str, region: str, beginning: str, limit: int) -> list[str]:
        """Returns names of properties; see Store.property_names."""
        return self._store.property_names(account, region, beginning, limit)


def _without_pool(job: TrainingJob) -> Mapping[str, Any]:
    resources = job.request["ResourceConfig"]
    if not resources.get("KeepAlivePeriodInSeconds") or (job.terminal and not job.pool_available):
        return {}
    # With a period of 0, a job that runs would not know the directory of its pool any more.
    return {"ResourceConfig": {**resources, "KeepAlivePeriodInSeconds": 0 if job.terminal else 1}}


class ProcessingJobs(JobsOf[ProcessingJob]):
    """The processing jobs."""

    kind, record = JobKind.PROCESSING, ProcessingJob

    def create(self, key: JobKey, request: JsonObject, tags: dict[str, str]) -> ProcessingJob:
        return self._insert(processing.create(key, uuid.uuid4().hex, request, tags, self._clock.now_ms()))


class Inputs:
    """Checks whether this server has what a request names: images, buckets, objects, file systems, hosts."""

    def __init__(self, settings: Settings, objects: ObjectStore, images: ImageChoice) -> None:
        #: The most hosts that one job can have.
        self.host_limit = settings.host_limit
        self._file_systems = settings.file_systems
        self._objects = objects
        self._images = images

    def check_file_system(self, source: FileSystemSource) -> None:
        """Raises ClientFault if no directory stands in for the file system that a channel names."""
        directory_of(source, self._file_systems)

    def has_objects(self, principal: Principal, uri: S3Uri) -> bool:
        """True if there is an object under an S3 prefix, and if the principal may list it."""
        try:
            return any(True for _ in self._objects.list(principal, uri.bucket, uri.key))
        except (ObjectNotFound, NotAuthorized):
            return False

    def has_bucket(self, principal: Principal, uri: S3Uri) -> bool:
        """True if the bucket of an S3 URI exists and belongs to the principal's account."""
        return self._objects.has_bucket(principal, uri.bucket)

    def knows_image(self, uri: str) -> bool:
        """True if the image is known; see ImageChoice.is_known."""
        return self._images.is_known(uri)


class Metrics:
    """Metrics of jobs: from their logs, of their hosts, and those that clients put into trial components."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def final(self, job: Job) -> list[MetricPoint]:
        """Returns the last value of each of the job's metrics (FinalMetricDataList)."""
        return self._store.last_points(job.id)

    def of_job(self, job: Job, name: str) -> list[Sample]:
        """Returns the samples that a metric definition of the job found in its log."""
        return self._store.points.of_job(job.id, name)

    def names(self, job: Job) -> list[str]:
        """Returns the metrics that have samples in the job's log."""
        return self._store.logs.metric_names(job.id)

    def curve(self, job: Job, name: str, most: int, host: str | None = None) -> list[Sample]:
        """Returns a metric's samples; see Logs.curve."""
        return self._store.logs.curve(job.id, name, most, host)

    def of_hosts(self, job: Job) -> list[MetricPoint]:
        """Returns the instance metrics of the job's hosts, by time."""
        return self._store.points.of_hosts(job.id)

    def put_component(
        self, account: str, region: str, component: str, job: TrainingJob | None, named: Sequence[tuple[str, Sample]]
    ) -> None:
        """Adds samples to metrics of a trial component, which may be a job's own."""
        self._store.points.put(account, region, component, None if job is None else job.id, named)

    def of_component(self, account: str, region: str, component: str, name: str) -> list[Sample]:
        """Returns the samples that were put into a metric of a trial component."""
        return self._store.points.of_component(account, region, component, name)
