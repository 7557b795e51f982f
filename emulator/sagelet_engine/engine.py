"""The engine of one data directory: the composition root of the packages below it.

The API uses its facets: `jobs`, `processing`, `tuning`, `pipelines`, `inputs`, `logs`, `metrics`, `reports`. What a
server without work does not need is loaded when it is first used (`Late`).
"""

import logging
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict

import sagelet_engine
from sagelet_engine.base.clock import Clock, SteadyClock, SystemClock
from sagelet_engine.base.concurrency import COMPUTING_AT_ONCE, ConcurrencyLimit
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import (
    JobNotFound,
    JobNotStoppable,
    OrchestrationEnded,
    OrchestrationNotFound,
    RuntimeUnavailable,
)
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.keys import KeyPair, ca_file, key_pair, make_own_private
from sagelet_engine.base.loading import Late
from sagelet_engine.compile_cache.host_copies import HostCopies
from sagelet_engine.compile_cache.store import CacheStore
from sagelet_engine.data.removal import DirectoryStays
from sagelet_engine.execution.disk_watch import DiskWatch
from sagelet_engine.execution.job_context import SupervisorDeps
from sagelet_engine.execution.launch import Endpoint
from sagelet_engine.execution.orphans import end_orphans
from sagelet_engine.execution.outbox import Outbox
from sagelet_engine.execution.republishing import Republishing
from sagelet_engine.execution.supervisors import Supervisors, join_all
from sagelet_engine.facets import Inputs, Jobs, Logs, Metrics, ProcessingJobs
from sagelet_engine.functions.invocations import Invocations
from sagelet_engine.images.resolve import Resolver
from sagelet_engine.instances.gpus import ClusterGpus, GpuPool, detect_gpus
from sagelet_engine.model.cluster import ClusterContext
from sagelet_engine.model.functions import NO_FUNCTIONS, Functions
from sagelet_engine.model.job import Job, JobKind, PoolStatus
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.orchestration import Orchestration, OrchestrationKind, OrchestrationStatus
from sagelet_engine.model.pipeline import EXECUTION_STATUSES
from sagelet_engine.model.principal import Authorize
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.model.service_calls import NO_CALLS, ServiceCalls
from sagelet_engine.model.sinks import MetricSink, StatusSink
from sagelet_engine.orchestration.orchestrator import Orchestrator, Work
from sagelet_engine.retention.gc import Collected, Collector, Keep
from sagelet_engine.retention.thread import RetentionThread
from sagelet_engine.runtimes import last_used
from sagelet_engine.scheduling.contract import Scheduler
from sagelet_engine.scheduling.image_choice import ImageChoice
from sagelet_engine.scheduling.local import LocalScheduler
from sagelet_engine.scheduling.warm_pools import WarmPools
from sagelet_engine.settings import GpuPolicy, Settings
from sagelet_engine.state.integrity import IntegrityCheck
from sagelet_engine.state.owner import DirectoryLock, lock_directory
from sagelet_engine.store.iam import IamRecords
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.registry import Registry

if TYPE_CHECKING:
    from sagelet_engine.pipelines.facet import Pipelines
    from sagelet_engine.reports.facet import Reports
    from sagelet_engine.tuning.facet import TuningJobs

log = logging.getLogger(__name__)

#: Seconds that a closing engine waits for its supervisors to release their jobs.
DETACH_SECONDS = 5


class Health(TypedDict):
    """The engine's health as `/_sagelet/health` shows it."""

    #: `ok` or `damaged`.
    status: str
    #: The state of each database, by its name.
    databases: Mapping[str, str]
    version: str
    #: Distinguishes one start of the server from the next.
    instance: str
    runtime: str
    auth: bool
    #: Number of the machine's GPUs that jobs may use.
    gpus: int
    #: Number of jobs by TrainingJobStatus. Empty if a database is damaged: they cannot be counted for certain.
    jobs: Mapping[str, int]
    #: Number of tuning jobs by HyperParameterTuningJobStatus. Empty if a database is damaged.
    tuning_jobs: Mapping[str, int]
    #: The same of executions of pipelines, by PipelineExecutionStatus.
    executions: Mapping[str, int]


class Engine:
    """The jobs of one data directory. Raises DataDirectoryInUse if another engine has it."""

    def __init__(
        self,
        settings: Settings,
        *,
        runtime: Runtime,
        objects: ObjectStore,
        metrics: MetricSink,
        statuses: StatusSink,
        clock: Clock,
        authorize: Authorize,
        lock: DirectoryLock | None = None,
        calls: ServiceCalls = NO_CALLS,
        functions: Functions = NO_FUNCTIONS,
        function_runtime: Runtime | None = None,
    ) -> None:
        """`authorize`: decides about each principal. `lock`: of the data directory, which the engine owns from now on.
        Steps of pipelines call `calls` and invoke `functions`. `function_runtime`: runs those, if `runtime` does not.
        """
        self._settings = settings
        self._images = ImageChoice(Resolver(settings.image_rules, settings.data), runtime)
        self._lock = lock or lock_directory(settings.data)
        #: A request takes a place of it while it computes, and leaves it while a commit waits for the disk.
        self.computing = ConcurrencyLimit(COMPUTING_AT_ONCE)
        #: The owner's key pair.
        self.keys, self._store = self._open()
        #: Distinguishes one start of the server from the next.
        self.instance = uuid.uuid4().hex
        steady = self._clock = SteadyClock(clock)
        self._runtime = runtime
        self._objects = objects
        #: Counts every change of a job, and every line and metric point, of any job.
        self.changes = self._store.changes
        self._metrics = metrics
        self._gpus = () if settings.gpus is GpuPolicy.OFF else detect_gpus()
        self._warm = WarmPools(self._store, settings.data)
        self._scheduler = self._make_scheduler()
        self._cache = self._make_cache()
        self._outbox = Outbox(self._store, statuses)
        self._closing = threading.Event()
        self._supervisors = Supervisors(self._closing)
        self._disk = DiskWatch(settings.data)
        self._integrity = IntegrityCheck(settings.data, self._closing)
        self._port = settings.port
        self._recovery = threading.Thread(target=self._recover, name="recover", daemon=True)
        self._collector = Collector(self._store, settings.data, steady)
        self.jobs, self.processing = self._make_jobs()
        self.functions = self._make_functions(functions, function_runtime or runtime)
        self.orchestrator = self._make_orchestrator(calls)
        self._tuning = Late(self._make_tuning)
        self._pipelines = Late(lambda: self._make_pipelines(authorize))
        self.inputs = Inputs(settings, objects, self._images)
        self.logs = Logs(self._store, steady)
        self.metrics = Metrics(self._store)
        self._reports = Late(self._make_reports)
        self._retention = self._make_retention()
        self._unfinished = self._store.unfinished()
        self._check_runtime()
        steady.begin_at(self._last_change_ms())
        self._republishing = Republishing(self._store, metrics, steady.now_ms(), self._closing)
        self._queue_unfinished()

    @property
    def iam(self) -> IamRecords:
        """What IAM holds."""
        return self._store.iam

    @property
    def registry(self) -> Registry:
        """The model registry of all accounts and regions."""
        return self._store.registry

    def _open(self) -> tuple[KeyPair, Store]:
        """Opens the data directory. Gives its lock back if that fails."""
        data = self._settings.data
        try:
            keys, store = key_pair(data), Store(data / "sagelet.db", self.computing.away)
            make_own_private(data / "jobs")
        except BaseException:
            self._lock.close()
            raise
        return keys, store

    def _check_runtime(self) -> None:
        try:
            last_used.check(self._settings, self._runtime.name, self._unfinished)
        except BaseException:
            self._store.close()
            self._lock.close()
            raise

    def _make_jobs(self) -> tuple[Jobs, ProcessingJobs]:
        parts = (
            self._store,
            self._clock,
            self._scheduler,
            self._supervisors,
            self._supervise,
            self._collector,
        )
        jobs = Jobs(*parts, keys=self.keys, spot_discount=self._settings.spot_discount)
        return jobs, ProcessingJobs(*parts)

    def _last_change_ms(self) -> int:
        """Returns the latest time in the unfinished records, or 0."""
        begun: list[Job | Orchestration] = [*self._unfinished, *self._store.orchestrations.unfinished()]
        return max((record.modified_ms for record in begun), default=0)

    def _make_cache(self) -> HostCopies:
        store = CacheStore(self._settings.data, self._settings.compile_cache_bytes)
        store.recover()
        store.trim()
        return HostCopies(store, self._clock)

    def _make_retention(self) -> RetentionThread:
        settings = self._settings
        keep = Keep(settings.keep_files_seconds, settings.keep_files_bytes, settings.keep_jobs_seconds)
        return RetentionThread(self.logs.groups, self._collector, keep, self._closing)

    def _make_orchestrator(self, calls: ServiceCalls) -> Orchestrator:
        def tuning() -> Work[Any]:
            from sagelet_engine.tuning.work import TuningWork

            jobs, runtime = self.jobs, self._runtime
            return TuningWork(self._store, self._clock, jobs.create, jobs.stop, lambda: runtime.awaits_time)

        def pipelines() -> Work[Any]:
            from sagelet_engine.pipelines.work import PipelineWork

            kept, unfinished = self._store.orchestrations, self._store.unfinished_arns
            return PipelineWork(kept, self._objects, self._clock, calls, self.functions, unfinished)

        works = {OrchestrationKind.TUNING: Late(tuning), OrchestrationKind.PIPELINE_EXECUTION: Late(pipelines)}
        return Orchestrator(self._store, self._clock, works)

    def _make_tuning(self) -> "TuningJobs":
        from sagelet_engine.tuning.facet import TuningJobs

        return TuningJobs(self._store, self._clock, self.orchestrator.watch)

    def _make_pipelines(self, authorize: Authorize) -> "Pipelines":
        from sagelet_engine.pipelines.facet import Pipelines

        watch = self.orchestrator.watch
        return Pipelines(self._store, self._objects, self._clock, watch, self.computing, authorize)

    def _make_reports(self) -> "Reports":
        from sagelet_engine.reports.facet import Reports

        return Reports(self._store, self._settings.data, self._objects, self._clock)

    @property
    def tuning(self) -> "TuningJobs":
        """The tuning jobs of all accounts and regions."""
        return self._tuning()

    @property
    def pipelines(self) -> "Pipelines":
        """The pipelines and their executions, of all accounts and regions."""
        return self._pipelines()

    @property
    def reports(self) -> "Reports":
        """Reports on jobs."""
        return self._reports()

    def _make_functions(self, functions: Functions, runtime: Runtime) -> Invocations:
        settings = self._settings
        return Invocations(
            settings.data,
            runtime,
            functions,
            lambda host: Endpoint(self._port, self.keys, settings.tls).url(host),
            lambda: ca_file(settings.data) if settings.tls else None,
            self._clock if self._runtime.runs_scripts else SystemClock(),
            # Simulated time must not pass while a function runs.
            waits=not self._runtime.runs_scripts,
        )

    def _make_scheduler(self) -> Scheduler:
        """Makes the scheduler. sagelet gives out this machine's places; a cluster gives out its own."""
        settings, store, clock = self._settings, self._store, self._clock
        cluster = self._runtime.cluster
        if cluster is None:
            pool = GpuPool(self._gpus, settings.gpus)
            return LocalScheduler(
                store,
                clock,
                pool,
                settings.max_jobs,
                self._supervise,
                self._warm,
                self._images.refusals,
                max_hosts=settings.host_limit,
            )
        from sagelet_engine.scheduling.cluster import ClusterScheduler

        cluster.attach(ClusterContext(self._objects, self.keys, self._url_for_hosts, self._authority))
        gpus, grace = ClusterGpus(settings.gpus), settings.stop_grace_seconds
        refusal = self._images.refusal
        return ClusterScheduler(store, clock, cluster, gpus, self._supervise, self._warm, refusal, grace_seconds=grace)

    def _url_for_hosts(self) -> str:
        return Endpoint(self._port, self.keys, self._settings.tls).url(self._runtime.endpoint_host)

    def _authority(self) -> str:
        file = ca_file(self._settings.data)
        return file.read_text() if self._settings.tls and file.exists() else ""

    def start(self, port: int) -> int:
        """Continues every unfinished job in the background and begins to schedule. `port`: the endpoint's.

        Returns the number of adopted jobs.
        """
        self._port = port
        if self._unfinished:
            self._supervisors.load()
        self._outbox.start()
        self._recovery.start()
        self._republishing.start()
        self._retention.start()
        self._integrity.start()
        return len(self._unfinished)

    def _queue_unfinished(self) -> None:
        """Queues the unfinished jobs before the first request can come: new jobs queue after them, and none queues
        twice.
        """
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
        try:
            self.functions.sweep(self._executions())
        except (RuntimeUnavailable, StoreUnavailable, DirectoryStays) as error:
            log.warning("what functions have left could not be removed: %s", error)
        self.orchestrator.start()
        # No caller waits for these.
        for orphan in () if self._closing.is_set() else self.end_orphans():
            log.warning("ended: %s", orphan)

    def end_orphans(self, *, dry_run: bool = False) -> tuple[str, ...]:
        """Ends hosts without a job; see orphans.end_orphans."""
        return end_orphans(
            self._store, [self._runtime], self._settings.data, self.functions.is_waited_for, dry_run=dry_run
        )

    def _executions(self) -> set[str]:
        """Returns the ids of the unfinished executions of pipelines, whose functions may run."""
        return {record.id for record in self._store.orchestrations.unfinished()}

    def stop_all(self, account: str) -> int:
        """Asks every unfinished job and orchestration of an account to stop. Returns their number.

        The account's warm pools end, too: each keeps its job's place, for up to an hour.
        """
        stopped = 0
        # First what makes jobs: it would make others in the place of those that are stopped.
        for record in self._store.orchestrations.unfinished():
            if record.key.account == account:
                of_kind = self.tuning if record.key.kind is OrchestrationKind.TUNING else self.pipelines
                with suppress(OrchestrationNotFound, OrchestrationEnded):
                    of_kind.stop(record.key)
                    stopped += 1
        for job in self._store.unfinished():
            if job.key.account == account:
                stopped += self._stop(job)
        for job in self._store.with_warm_pool(PoolStatus.AVAILABLE):
            if job.key.account == account:
                with suppress(JobNotFound):
                    self.jobs.end_pool(job.key)
        return stopped

    def _stop(self, job: Job) -> bool:
        """Asks a job to stop, and has it leave no warm pool. Returns False if it has ended or gone meanwhile."""
        with suppress(JobNotFound, JobNotStoppable):
            if job.key.kind is JobKind.TRAINING:
                self.jobs.end_pool(job.key)
            jobs = self.processing if job.key.kind is JobKind.PROCESSING else self.jobs
            jobs.stop(job.key)
            return True
        return False

    def lost(self) -> str | None:
        """Returns why this engine has lost the data directory, for people. None while it has it."""
        return self._lock.lost()

    def close(self) -> list[Job]:
        """Releases every job without stopping it. Returns the jobs that run on."""
        self._closing.set()
        self._retention.wake()
        self.changes.close()
        self.orchestrator.close()
        self._scheduler.close()
        self._outbox.close()
        deadline = time.monotonic() + DETACH_SECONDS
        join_all([self._recovery, self._republishing, self._retention, self._integrity], deadline)
        join_all([self.orchestrator, self._scheduler, self._outbox], deadline)
        self._supervisors.join(deadline)
        try:
            return [job for job in self._store.unfinished() if job.launched]
        except StoreUnavailable as error:
            log.warning("the jobs that still run could not be read: %s", error)
            return []
        finally:
            self._store.close()
            self._lock.close()

    def now_ms(self) -> int:
        """The time by the clock that the jobs' times are from, in ms since the epoch."""
        return self._clock.now_ms()

    def health(self) -> Health:
        databases = self._integrity.states()
        sound = all(state == "ok" for state in databases.values())
        return {
            "instance": self.instance,
            "status": "ok" if sound else "damaged",
            "databases": databases,
            "version": sagelet_engine.__version__,
            "runtime": self._runtime.name,
            "auth": self._settings.auth,
            "gpus": len(self._gpus),
            "jobs": self._store.counts() if sound else {},
            "tuning_jobs": self._orchestrations(OrchestrationKind.TUNING) if sound else {},
            "executions": self._executions_by_status() if sound else {},
        }

    def _orchestrations(self, kind: OrchestrationKind) -> dict[str, int]:
        counts = self._store.orchestrations.counts()
        return {status: number for (of, status), number in counts.items() if of == kind.value}

    def _executions_by_status(self) -> dict[str, int]:
        counts = self._orchestrations(OrchestrationKind.PIPELINE_EXECUTION)
        return {EXECUTION_STATUSES[OrchestrationStatus(status)]: number for status, number in counts.items()}

    def collect(self, keep: Keep, *, dry_run: bool = False) -> Collected:
        """Removes what ended jobs have left, except what `keep` allows. Raises StoreUnavailable."""
        return self._collector.collect(keep, dry_run=dry_run)

    def compact(self) -> int:
        """Returns the space of deleted jobs, logs and metrics in the database to the disk, and the number of bytes."""
        return self._store.compact()

    def _supervise(self, job: Job) -> None:
        services = SupervisorDeps(
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
            self._scheduler.keeps_places,
        )
        self._supervisors.start(services, job, self._ended)

    def _ended(self, job: Job) -> None:
        self._scheduler.ended(job)
        self._retention.wake()
