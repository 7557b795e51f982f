"""The engine: everything that the faces can ask for. The composition root of the packages below it."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sagelet_engine
from sagelet_engine.clock import Clock, SteadyClock
from sagelet_engine.comparison import comparing
from sagelet_engine.comparison.result import Comparison
from sagelet_engine.compile_cache.lending import Lending
from sagelet_engine.compile_cache.store import CacheStore
from sagelet_engine.data.file_systems import FileSystemSource, directory_of
from sagelet_engine.data.objects import ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.database import NotFlushed, StoreUnavailable
from sagelet_engine.errors import JobNotFound, JobNotStoppable
from sagelet_engine.failpoints import Failpoint, failpoint
from sagelet_engine.images.resolve import Resolver
from sagelet_engine.instances.bill import Bill, bill
from sagelet_engine.instances.gpus import ClusterGpus, GpuPool, detect_gpus
from sagelet_engine.jobs import compile_reports, faults, lifecycle, warm_pools
from sagelet_engine.jobs.announcer import Announcer
from sagelet_engine.jobs.cluster_scheduler import ClusterScheduler
from sagelet_engine.jobs.collector import Collected, Collector, Keep
from sagelet_engine.jobs.consultation import Consultation
from sagelet_engine.jobs.disk_watch import DiskWatch
from sagelet_engine.jobs.image_choice import ImageChoice
from sagelet_engine.jobs.launch import Endpoint
from sagelet_engine.jobs.measurements import Measurements
from sagelet_engine.jobs.pool_keeper import PoolKeeper
from sagelet_engine.jobs.query import JobPage, JobQuery, ListedJob
from sagelet_engine.jobs.record import JobKey, StopCause, TrainingJob
from sagelet_engine.jobs.republishing import Republishing
from sagelet_engine.jobs.scheduler import Scheduler
from sagelet_engine.jobs.search import JobSearch, SearchPage
from sagelet_engine.jobs.session import JobSession, job_id_of, session_key
from sagelet_engine.jobs.store import StaleRecord, Store
from sagelet_engine.jobs.strays import end_strays
from sagelet_engine.jobs.supervisor import Supervisor
from sagelet_engine.jobs.tidying import Tidying
from sagelet_engine.jobs.under_way import Services
from sagelet_engine.keys import ca_file, key_pair, make_own_private
from sagelet_engine.runtimes import last_used
from sagelet_engine.runtimes.cluster import Ground
from sagelet_engine.runtimes.port import Runtime
from sagelet_engine.settings import GpuPolicy, Settings
from sagelet_engine.state.identity import forget_former
from sagelet_engine.state.owner import DirectoryLock, lock_directory
from sagelet_engine.state.soundness import Soundness
from sagelet_engine.telemetry.compiler.progress import Progress, progress
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.events import FoundLines, LogEvent, LogStream, MergedEvents
from sagelet_engine.telemetry.retention import LogKeeper
from sagelet_engine.telemetry.series import Sample
from sagelet_engine.telemetry.sink import MetricPoint, MetricSink, StatusSink

log = logging.getLogger(__name__)

#: Seconds that a closing engine waits for its supervisors to let go of their jobs.
DETACH_SECONDS = 5


class Engine:
    """Training jobs of one data directory. Raises DataDirectoryInUse when another engine has it."""

    def __init__(
        self,
        settings: Settings,
        *,
        runtime: Runtime,
        objects: ObjectStore,
        metrics: MetricSink,
        statuses: StatusSink,
        clock: Clock,
        lock: DirectoryLock | None = None,
    ) -> None:
        """`lock`: of the data directory, where the caller took it already; from now on the engine's."""
        self._settings = settings
        self._images = ImageChoice(Resolver(settings.image_rules, settings.data), runtime)
        self._lock = lock or lock_directory(settings.data)
        try:
            #: Whoever has it owns this server.
            self.keys = key_pair(settings.data)
            self._store = Store(settings.data / "sagelet.db")
            make_own_private(settings.data / "jobs")
        except BaseException:
            self._lock.close()
            raise
        steady = SteadyClock(clock)
        #: The log group as a whole: retention, tags, deletion.
        self.log_groups = LogKeeper(self._store, steady)
        self._runtime = runtime
        self._objects = objects
        #: Every change of a job, and every line and metric point, of any job.
        self.changes = self._store.changes
        self._metrics = metrics
        self._clock = steady
        self._gpus = () if settings.gpus is GpuPolicy.OFF else detect_gpus()
        self._warm = PoolKeeper(self._store, settings.data)
        self._scheduler = self._make_scheduler()
        self._cache = Lending(CacheStore(settings.data, settings.compile_cache_bytes), steady)
        self._cache.store.recover()
        self._cache.store.trim()
        self._announcer = Announcer(self._store, statuses)
        self._supervisors: dict[str, Supervisor] = {}
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._disk = DiskWatch(settings.data)
        self._soundness = Soundness(settings.data, self._closing)
        self._port = settings.port
        self._recovery = threading.Thread(target=self._recover, name="recover", daemon=True)
        self._collector = Collector(self._store, settings.data, steady)
        keep = Keep(settings.keep_files_seconds, settings.keep_files_bytes, settings.keep_jobs_seconds)
        self._tidying = Tidying(self.log_groups, self._collector, keep, self._closing)
        self._unfinished = self._store.unfinished()
        self._check_runtime()
        if not self._unfinished:
            forget_former(settings.data, self._lock.identity)
        steady.begin_at(max((job.modified_ms for job in self._unfinished), default=0))
        self._republishing = Republishing(self._store, metrics, steady.now_ms(), self._closing)
        self._queue_unfinished()

    def _check_runtime(self) -> None:
        try:
            last_used.check(self._settings, self._runtime.name, self._unfinished)
        except BaseException:
            self._store.close()
            self._lock.close()
            raise

    def _make_scheduler(self) -> Scheduler | ClusterScheduler:
        """This machine's places are ours to give; a cluster gives its own."""
        settings, store, clock, refusal = self._settings, self._store, self._clock, self._images.refusal
        cluster = self._runtime.cluster
        if cluster is None:
            pool = GpuPool(self._gpus, settings.gpus)
            return Scheduler(
                store,
                clock,
                pool,
                settings.max_jobs,
                self._supervise,
                self._warm,
                refusal,
                max_hosts=settings.host_limit,
            )
        cluster.attach(Ground(self._objects, self.keys, self._url_for_hosts, self._authority))
        gpus, grace = ClusterGpus(settings.gpus), settings.stop_grace_seconds
        return ClusterScheduler(store, clock, cluster, gpus, self._supervise, self._warm, refusal, grace_seconds=grace)

    def _url_for_hosts(self) -> str:
        return Endpoint(self._port, self.keys, self._settings.tls).url(self._runtime.endpoint_host)

    def _authority(self) -> str:
        file = ca_file(self._settings.data)
        return file.read_text() if self._settings.tls and file.exists() else ""

    # --- life -------------------------------------------------------------------------------------------------

    def start(self, port: int) -> int:
        """Continues every unfinished job in the background and begins to schedule. `port`: the endpoint's.

        Returns how many jobs are taken up again.
        """
        self._port = port
        self._announcer.start()
        self._recovery.start()
        self._republishing.start()
        self._tidying.start()
        self._soundness.start()
        return len(self._unfinished)

    def _queue_unfinished(self) -> None:
        """Before the first request can come: jobs that are new now queue behind, and none queues twice."""
        for job in self._warm.restore(self._unfinished):
            self._scheduler.occupy(job)
        for job in self._unfinished:
            if job.placed_ms is not None:
                self._scheduler.occupy(job)
            elif job.stop_ms is None:
                self._scheduler.submit(job)

    def _recover(self) -> None:
        failpoint(Failpoint.BEFORE_RECOVERY)
        for job in self._unfinished:
            if job.placed_ms is not None or job.stop_ms is not None:
                self._supervise(job)
                failpoint(Failpoint.AFTER_ADOPTION)
        self._scheduler.start()
        # Nobody waits for these.
        for stray in () if self._closing.is_set() else self.end_strays():
            log.warning("ended: %s", stray)

    def end_strays(self, *, dry_run: bool = False) -> tuple[str, ...]:
        """See strays.end_strays."""
        return end_strays(self._store, [self._runtime], self._settings.data, dry_run=dry_run)

    def lost(self) -> str | None:
        """Why the data directory is not this engine's any more, for people; None while it is."""
        return self._lock.lost()

    def close(self) -> list[TrainingJob]:
        """Lets go of every job without stopping it; returns those that run on."""
        self._closing.set()
        self._tidying.wake()
        self.changes.close()
        self._scheduler.close()
        if self._runtime.cluster is not None:
            self._runtime.cluster.close()
        self._announcer.close()
        deadline = time.monotonic() + DETACH_SECONDS
        _join([self._recovery, self._republishing, self._tidying, self._soundness], deadline)
        _join([self._scheduler, self._announcer], deadline)
        with self._guard:
            supervisors = list(self._supervisors.values())
        _join(supervisors, deadline)
        try:
            return [job for job in self._store.unfinished() if job.launched]
        except StoreUnavailable as error:
            log.warning("which jobs run on is not known: %s", error)
            return []
        finally:
            self._store.close()
            self._lock.close()

    def health(self) -> dict[str, Any]:
        """`status` is `ok` or `damaged`; then `jobs` is empty, since they cannot be counted for certain."""
        databases = self._soundness.states()
        sound = all(state == "ok" for state in databases.values())
        return {
            "status": "ok" if sound else "damaged",
            "databases": databases,
            "version": sagelet_engine.__version__,
            "runtime": self._runtime.name,
            "auth": self._settings.auth,
            "gpus": len(self._gpus),
            "jobs": self._store.counts() if sound else {},
        }

    # --- jobs -------------------------------------------------------------------------------------------------

    def create(self, key: JobKey, request: dict[str, Any], tags: dict[str, str]) -> TrainingJob:
        """Makes a job durable and queues it. `request`: a validated CreateTrainingJob body. Raises JobNameInUse."""
        discount = self._settings.spot_discount
        job = lifecycle.create(key, uuid.uuid4().hex, request, tags, self._clock.now_ms(), discount)
        failpoint(Failpoint.BEFORE_INSERT)
        try:
            self._store.insert(job)
        except NotFlushed:
            # Its client is told of an error, and the job is there.
            self._scheduler.submit(job)
            raise
        failpoint(Failpoint.AFTER_INSERT)
        self._scheduler.submit(job)
        failpoint(Failpoint.BEFORE_ANSWER)
        return job

    def job(self, key: JobKey) -> TrainingJob:
        """Raises JobNotFound."""
        return self._store.get(key)

    def jobs(self, query: JobQuery) -> JobPage[TrainingJob]:
        return self._store.page(query)

    def listing(self, query: JobQuery) -> JobPage[ListedJob]:
        """The same jobs, of each what a list shows."""
        return self._store.listing(query)

    def unfinished(self) -> list[TrainingJob]:
        """Every job that has not ended, oldest first, of all accounts and regions."""
        return self._store.unfinished()

    def stop(self, key: JobKey) -> None:
        """Asks a job to stop; one that is being stopped already is left at it. Raises JobNotFound, JobNotStoppable."""
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
        self._poke(job)

    def interrupt(self, key: JobKey) -> TrainingJob:
        """Takes a managed spot job's instances away; it starts again. Raises JobNotFound, JobNotInterruptible."""
        while True:
            job = self._store.get(key)
            try:
                job = self._store.update(lifecycle.interrupt(job, self._clock.now_ms()))
                failpoint(Failpoint.AFTER_INTERRUPT)
                break
            except StaleRecord:
                continue
        self._poke(job)
        return job

    def search(self, query: JobSearch) -> SearchPage:
        return self._store.search(query)

    def counts(self, account: str, region: str) -> dict[str, int]:
        """Number of jobs by TrainingJobStatus."""
        return self._store.counts_of(account, region)

    def places(self) -> list[tuple[str, str]]:
        """Every account and region that has jobs."""
        return self._store.places()

    def property_names(self, account: str, region: str, beginning: str, limit: int) -> list[str]:
        """See Store.property_names."""
        return self._store.property_names(account, region, beginning, limit)

    def update(self, key: JobKey, change: Callable[[TrainingJob], Mapping[str, Any]]) -> TrainingJob:
        """Replaces members of the request by those that `change` gives. Raises JobNotFound, and what `change` does.

        A job that has ended has only its warm pool's period to change: it lasts longer, or ends at once.
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
        """See Collector.forget. Raises JobNotFound, JobNotDeletable, WarmPoolAvailable, DirectoryStays."""
        self._collector.forget(self._store.get(key))

    def collect(self, keep: Keep, *, dry_run: bool = False) -> Collected:
        """Removes what ended jobs have left, but what `keep` names. Raises StoreUnavailable."""
        return self._collector.collect(keep, dry_run=dry_run)

    def compact(self) -> int:
        """Gives the disk what deleted jobs, logs and metrics took in the database; returns bytes."""
        return self._store.compact()

    @property
    def host_limit(self) -> int:
        """The most hosts that one job can have."""
        return self._settings.host_limit

    def check_file_system(self, source: FileSystemSource) -> None:
        """Raises ClientFault when no directory stands in for what a channel names."""
        directory_of(source, self._settings.file_systems)

    def holds_input(self, key: JobKey, uri: S3Uri) -> bool:
        """Whether there is an object under an S3 prefix."""
        try:
            return any(True for _ in self._objects.list(key.account, key.region, uri.bucket, uri.key))
        except ObjectNotFound:
            return False

    def has_bucket(self, key: JobKey, uri: S3Uri) -> bool:
        """Whether the bucket of an S3 URI is there, and the account's own."""
        return self._objects.has_bucket(key.account, uri.bucket)

    def knows_image(self, uri: str) -> bool:
        """See ImageChoice.is_known."""
        return self._images.is_known(uri)

    def put_tags(self, key: JobKey, tags: Mapping[str, str], limit: int) -> None:
        """All tags or none. Raises JobNotFound, TooManyTags."""
        job = self._store.get(key)
        self._store.put_tags(job.id, tags, limit)
        self._poke(job)

    def delete_tags(self, key: JobKey, keys: Sequence[str]) -> None:
        """Raises JobNotFound."""
        job = self._store.get(key)
        self._store.delete_tags(job.id, keys)
        self._poke(job)

    def throttles(self, job: TrainingJob) -> bool:
        """Whether this call is one that the job's tag wants throttled; counts it if so."""
        limit = faults.of(job).throttled
        return limit > 0 and self._store.throttle(job.id, limit)

    def compiler_report(self, key: JobKey) -> CompilerReport | None:
        """What compiling did for the job, so far or in all; None: no worker has reported. Raises JobNotFound."""
        job = self._store.get(key)
        report = compile_reports.current(self._settings.data, job)
        if report is None or report.final:
            return report
        return replace(report, findings=self._consult(job, report))

    def progress(self, key: JobKey) -> Progress:
        """What the job's workers do now. Raises JobNotFound."""
        return progress(compile_reports.current(self._settings.data, self._store.get(key)))

    def findings(self, key: JobKey) -> Sequence[Mapping[str, Any]]:
        """What the doctor finds in the job, as of now (docs/reference/doctor.md). Raises JobNotFound."""
        job = self._store.get(key)
        report = compile_reports.current(self._settings.data, job)
        if report is not None and report.final:
            return report.findings
        return self._consult(job, report or CompilerReport())

    def _consult(self, job: TrainingJob, report: CompilerReport) -> compile_reports.Findings:
        return Consultation(self._store, self._settings.data).findings(job, report, self._clock.now_ms())

    def compare(self, keys: Sequence[JobKey], *, anyway: bool = False) -> Comparison:
        """Jobs against the first of them. Raises JobNotFound, CannotCompare, NotComparable (unless `anyway`)."""
        now_ms = self._clock.now_ms()
        measurements = Measurements(self._store, self._settings.data, self._objects)
        jobs = [self._store.get(key) for key in keys]
        return comparing.compare([measurements.of(job, now_ms) for job in jobs], anyway=anyway)

    def session(self, token: str) -> JobSession | None:
        """The job whose session token this is, ended or not; None when it is no job's, or the job is forgotten."""
        job_id = job_id_of(self.keys, token)
        if job_id is None:
            return None
        try:
            return JobSession(self._store.get_by_id(job_id), session_key(self.keys, job_id))
        except JobNotFound:
            return None

    def job_by_id(self, job_id: str) -> TrainingJob:
        """Raises JobNotFound."""
        return self._store.get_by_id(job_id)

    def bill(self, job: TrainingJob) -> Bill:
        """What AWS would ask for the job, as of now."""
        return bill(job, self._clock.now_ms())

    # --- telemetry --------------------------------------------------------------------------------------------

    def final_metrics(self, job: TrainingJob) -> list[MetricPoint]:
        """The last value of each of the job's metrics (FinalMetricDataList)."""
        return self._store.last_points(job.id)

    def log_stream(self, account: str, region: str, name: str) -> LogStream | None:
        return self._store.stream(account, region, name)

    def log_streams(self, account: str, region: str, prefix: str = "", **which: Any) -> list[LogStream]:
        """See Store.streams."""
        return self._store.streams(account, region, prefix, **which)

    def log_events(self, stream: LogStream, **which: Any) -> list[LogEvent]:
        """See Store.events."""
        return self._store.events(stream.id, **which)

    def merged_log_events(self, streams: Sequence[LogStream], **which: Any) -> MergedEvents:
        """See Store.merged_events."""
        return self._store.merged_events([stream.id for stream in streams], **which)

    def find_lines(self, stream: LogStream, text: str, **which: Any) -> FoundLines:
        """See sql_lines.Lines.find."""
        return self._store.lines.find(stream.id, text, **which)

    def put_component_metrics(
        self, account: str, region: str, component: str, job: TrainingJob | None, named: Sequence[tuple[str, Sample]]
    ) -> None:
        """Adds samples to metrics of a trial component, which may be a job's own."""
        self._store.points.put(account, region, component, None if job is None else job.id, named)

    def component_metric(self, account: str, region: str, component: str, name: str) -> list[Sample]:
        """What was put into a metric of a trial component."""
        return self._store.points.of_component(account, region, component, name)

    def job_metric(self, job: TrainingJob, name: str) -> list[Sample]:
        """What a metric definition of the job found in its log."""
        return self._store.points.of_job(job.id, name)

    def metric_names(self, job: TrainingJob) -> list[str]:
        """The metrics that have samples in the job's log."""
        return self._store.lines.metric_names(job.id)

    def metric_curve(self, job: TrainingJob, name: str, most: int) -> list[Sample]:
        """See sql_lines.Lines.curve."""
        return self._store.lines.curve(job.id, name, most)

    def host_metrics(self, job: TrainingJob) -> list[MetricPoint]:
        """The instance metrics of the job's hosts, by time."""
        return self._store.points.of_hosts(job.id)

    # --- inner ------------------------------------------------------------------------------------------------

    def _supervise(self, job: TrainingJob) -> None:
        services = Services(
            self._settings,
            self._store,
            self._clock,
            self._objects,
            self._metrics,
            self._runtime,
            self._images,
            Endpoint(self._port, self.keys, self._settings.tls, self._settings.hub),
            self._cache,
            self._closing,
            self._disk,
        )
        supervisor = Supervisor(services, job, self._ended)
        with self._guard:
            if job.id in self._supervisors or self._closing.is_set():
                return
            self._supervisors[job.id] = supervisor
            supervisor.start()

    def _poke(self, job: TrainingJob) -> None:
        with self._guard:
            supervisor = self._supervisors.get(job.id)
        if supervisor is not None:
            supervisor.poke()

    def _ended(self, job: TrainingJob) -> None:
        with self._guard:
            self._supervisors.pop(job.id, None)
        self._scheduler.ended(job)
        self._tidying.wake()


def _join(threads: Sequence[threading.Thread], deadline: float) -> None:
    """Waits for threads that were started, up to a moment of time.monotonic()."""
    for thread in threads:
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))
