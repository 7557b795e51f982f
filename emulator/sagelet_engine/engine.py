"""The engine of one data directory: the composition root of the packages below it.

The API uses its facets: `jobs`, `processing`, `tuning`, `pipelines`, `inputs`, `logs`, `log_groups`, `metrics`,
`reports`. What a server without work does not need is loaded when it is first used (`Late`).
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import sagelet_engine
from sagelet_engine.base.changes import Changes
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
from sagelet_engine.data.removal import DirectoryStays, Leftovers
from sagelet_engine.execution.disk_watch import DiskWatch
from sagelet_engine.execution.job_context import SupervisorDeps
from sagelet_engine.execution.launch import Endpoint
from sagelet_engine.execution.orphans import end_orphans
from sagelet_engine.execution.outbox import Outbox
from sagelet_engine.execution.republishing import Republishing
from sagelet_engine.execution.supervisors import Supervisors, join_all
from sagelet_engine.facets import Inputs, Jobs, Metrics, ProcessingJobs
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
from sagelet_engine.retention.logs import LogGroupActions
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
        self._settings, self._runtime = settings, runtime
        with ExitStack() as undo:
            # Parts take what they need from local variables: mypy reports one that is used before it is assigned.
            self._lock = lock = lock or lock_directory(settings.data)
            undo.callback(lock.close)
            #: A request takes a place of it while it computes, and leaves it while a commit waits for the disk.
            self.computing = computing = ConcurrencyLimit(COMPUTING_AT_ONCE)
            #: The owner's key pair.
            self.keys, self._store = keys, store = _open(settings.data, computing, undo)
            #: Distinguishes one start of the server from the next.
            self.instance = uuid.uuid4().hex
            self._clock = steady = SteadyClock(clock)
            self._closing = closing = threading.Event()
            self._outbox = Outbox(store, statuses)
            self._integrity = IntegrityCheck(settings.data, closing)
            self._endpoint = endpoint = Endpoint(settings.port, keys, settings.tls, settings.hub)
            services = _services(settings, store, steady, objects, metrics, runtime, endpoint, closing)
            self._supervisors = supervisors = Supervisors(services, self._ended)
            self._gpus = gpus = () if settings.gpus is GpuPolicy.OFF else detect_gpus()
            leftovers = Leftovers(settings.data, closing.is_set)
            self._warm = warm = WarmPools(store, settings.data, leftovers)
            self._scheduler = scheduler = _scheduler(services, gpus, warm, supervisors.start)
            self._collector = collector = Collector(store, settings.data, steady, leftovers)
            parts = store, steady, scheduler, supervisors, collector
            self.jobs = jobs = Jobs(*parts, keys, settings.spot_discount)
            self.processing = ProcessingJobs(*parts)
            self.inputs = Inputs(settings, objects, services.images)
            self.logs = store.logs
            self.log_groups = groups = LogGroupActions(store, steady)
            self.metrics = Metrics(store)
            self.functions = invocations = _invocations(services, functions, function_runtime or runtime)
            self.orchestrator = orchestrator = Orchestrator(store, steady, _works(services, jobs, calls, invocations))
            self._tuning = Late(lambda: _tuning(store, steady, orchestrator))
            self._pipelines = Late(lambda: _pipelines(store, objects, steady, orchestrator, authorize))
            self._reports = Late(lambda: _reports(store, settings, objects, steady))
            self._retention = _retention(settings, groups, collector, closing, leftovers.came)
            self._unfinished = unfinished = _unfinished(settings, store, runtime)
            steady.begin_at(_last_change_ms(store, unfinished))
            self._republishing = Republishing(store, metrics, steady.now_ms(), closing)
            self._recovery = threading.Thread(target=self._recover, name="recover", daemon=True)
            _queue(unfinished, scheduler, warm)
            undo.pop_all()

    @property
    def changes(self) -> Changes:
        """Counts every change of a job, and every line and metric point, of any job."""
        return self._store.changes

    @property
    def iam(self) -> IamRecords:
        """What IAM holds."""
        return self._store.iam

    @property
    def registry(self) -> Registry:
        """The model registry of all accounts and regions."""
        return self._store.registry

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

    def start(self, port: int) -> int:
        """Continues every unfinished job in the background and begins to schedule. `port`: the endpoint's.

        Returns the number of adopted jobs.
        """
        self._endpoint.port = port
        if self._unfinished:
            self._supervisors.load()
        self._outbox.start()
        self._recovery.start()
        self._republishing.start()
        self._retention.start()
        self._integrity.start()
        return len(self._unfinished)

    def _recover(self) -> None:
        failpoint(Failpoint.BEFORE_RECOVERY)
        for job in self._unfinished:
            if job.placed_ms is not None or job.stop_ms is not None:
                self._supervisors.start(job)
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

    def _ended(self, job: Job) -> None:
        self._scheduler.ended(job)
        self._retention.wake()


def _open(data: Path, computing: ConcurrencyLimit, undo: ExitStack) -> tuple[KeyPair, Store]:
    keys, store = key_pair(data), Store(data / "sagelet.db", computing.away)
    undo.callback(store.close)
    make_own_private(data / "jobs")
    return keys, store


def _services(
    settings: Settings,
    store: Store,
    clock: Clock,
    objects: ObjectStore,
    metrics: MetricSink,
    runtime: Runtime,
    endpoint: Endpoint,
    closing: threading.Event,
) -> SupervisorDeps:
    images, disk = ImageChoice(Resolver(settings.image_rules, settings.data), runtime), DiskWatch(settings.data)
    programs = CacheStore(settings.data, settings.compile_cache_bytes)
    programs.recover()
    programs.trim()
    cache = HostCopies(programs, clock)
    return SupervisorDeps(settings, store, clock, objects, metrics, runtime, images, endpoint, cache, closing, disk)


def _scheduler(
    services: SupervisorDeps, gpus: Sequence[str], warm: WarmPools, supervise: Callable[[Job], None]
) -> Scheduler:
    """Returns the scheduler. sagelet gives out this machine's places; a cluster gives out its own."""
    settings, store, clock, images = services.settings, services.store, services.clock, services.images
    cluster = services.runtime.cluster
    if cluster is None:
        pool, hosts = GpuPool(gpus, settings.gpus), settings.host_limit
        return LocalScheduler(store, clock, pool, settings.max_jobs, supervise, warm, images.refusals, max_hosts=hosts)
    from sagelet_engine.scheduling.cluster import ClusterScheduler

    endpoint, runtime = services.endpoint, services.runtime

    def url() -> str:
        return endpoint.url(runtime.endpoint_host)

    cluster.attach(ClusterContext(services.objects, endpoint.keys, url, lambda: _authority(settings)))
    of_cluster, grace = ClusterGpus(settings.gpus), settings.stop_grace_seconds
    return ClusterScheduler(store, clock, cluster, of_cluster, supervise, warm, images.refusal, grace_seconds=grace)


def _authority(settings: Settings) -> str:
    file = ca_file(settings.data)
    return file.read_text() if settings.tls and file.exists() else ""


def _invocations(services: SupervisorDeps, functions: Functions, runtime: Runtime) -> Invocations:
    runs_scripts = services.runtime.capabilities.runs_scripts
    return Invocations(
        services.settings.data,
        runtime,
        functions,
        services.endpoint.url,
        lambda: services.authority,
        services.clock if runs_scripts else SystemClock(),
        # Simulated time must not pass while a function runs.
        waits=not runs_scripts,
    )


def _works(
    services: SupervisorDeps, jobs: Jobs, calls: ServiceCalls, functions: Invocations
) -> dict[OrchestrationKind, Late[Work[Any]]]:
    store, clock = services.store, services.clock

    def tuning() -> Work[Any]:
        from sagelet_engine.tuning.work import TuningWork

        return TuningWork(store, clock, jobs.create, jobs.stop, lambda: services.runtime.awaits_time)

    def pipelines() -> Work[Any]:
        from sagelet_engine.pipelines.work import PipelineWork

        kept, unfinished = store.orchestrations, store.unfinished_arns
        return PipelineWork(kept, services.objects, clock, calls, functions, unfinished)

    return {OrchestrationKind.TUNING: Late(tuning), OrchestrationKind.PIPELINE_EXECUTION: Late(pipelines)}


def _tuning(store: Store, clock: Clock, orchestrator: Orchestrator) -> "TuningJobs":
    from sagelet_engine.tuning.facet import TuningJobs

    return TuningJobs(store, clock, orchestrator.watch)


def _pipelines(
    store: Store,
    objects: ObjectStore,
    clock: Clock,
    orchestrator: Orchestrator,
    authorize: Authorize,
) -> "Pipelines":
    from sagelet_engine.pipelines.facet import Pipelines

    return Pipelines(store, objects, clock, orchestrator.watch, authorize)


def _reports(store: Store, settings: Settings, objects: ObjectStore, clock: Clock) -> "Reports":
    from sagelet_engine.reports.facet import Reports

    return Reports(store, settings.data, objects, clock)


def _retention(
    settings: Settings, groups: LogGroupActions, collector: Collector, closing: threading.Event, woken: threading.Event
) -> RetentionThread:
    keep = Keep(settings.keep_files_seconds, settings.keep_files_bytes, settings.keep_jobs_seconds)
    return RetentionThread(groups, collector, keep, closing, woken)


def _unfinished(settings: Settings, store: Store, runtime: Runtime) -> list[Job]:
    """Returns the unfinished jobs. Raises SettingsError if their hosts are another runtime's."""
    unfinished = store.unfinished()
    last_used.check(settings, runtime.name, unfinished)
    return unfinished


def _last_change_ms(store: Store, unfinished: Sequence[Job]) -> int:
    """Returns the latest time in the unfinished records, or 0."""
    begun: list[Job | Orchestration] = [*unfinished, *store.orchestrations.unfinished()]
    return max((record.modified_ms for record in begun), default=0)


def _queue(unfinished: Sequence[Job], scheduler: Scheduler, warm: WarmPools) -> None:
    """Queues the unfinished jobs before the first request comes: new jobs queue after them, and none queues twice."""
    for job in warm.restore(unfinished):
        scheduler.occupy(job)
    for job in unfinished:
        if job.placed_ms is not None:
            scheduler.occupy(job)
        elif job.stop_ms is None:
            scheduler.submit(job)
