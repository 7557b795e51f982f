"""Removes what is no longer needed: files of ended jobs, abandoned uploads, the hub's leftovers, free pages."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sagelet_engine.base.clock import Clock, SystemClock
from sagelet_engine.data.removal import Leftovers
from sagelet_engine.execution.orphans import end_orphans
from sagelet_engine.hub.store import HubStore
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.retention.gc import Collected, Collector, Keep
from sagelet_engine.s3.multipart import Uploads
from sagelet_engine.s3.store import S3Store
from sagelet_engine.state import contents
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.store.jobs import Store


@dataclass(frozen=True)
class Rules:
    keep: Keep
    #: Seconds after which a multipart upload is abandoned. None for never.
    uploads_seconds: int | None


@dataclass(frozen=True)
class Garbage:
    """What was removed, or would be in a dry run."""

    jobs: int
    directories: int
    directory_bytes: int
    #: Packages that jobs installed from a file of requirements.
    environments: int
    environment_bytes: int
    uploads: int
    upload_bytes: int
    #: Bytes by which the databases are smaller now. A dry run does not know it.
    database_bytes: int
    #: Why something could not be removed, for people.
    stays: tuple[str, ...]
    #: Hosts that ran without a job or a data directory, for people.
    hosts: tuple[str, ...] = ()
    #: Files of the hub that belong to no repository.
    hub_files: int = 0
    hub_bytes: int = 0
    tuning_jobs: int = 0
    #: Executions of pipelines.
    executions: int = 0


class Jobs(Protocol):
    """An engine, or its substitute without a server."""

    def collect(self, keep: Keep, *, dry_run: bool = False) -> Collected: ...

    def compact(self) -> int: ...

    def end_orphans(self, *, dry_run: bool = False) -> tuple[str, ...]: ...


def collect_garbage(jobs: Jobs, objects: S3Store, hub: HubStore, rules: Rules, *, dry_run: bool = False) -> Garbage:
    """Removes garbage. The caller owns the data directory. May be repeated, also after a crash. Raises
    StoreUnavailable.
    """
    hosts = jobs.end_orphans(dry_run=dry_run)
    done = jobs.collect(rules.keep, dry_run=dry_run)
    uploads, upload_bytes = 0, 0
    if rules.uploads_seconds is not None:
        before_ms = objects.clock.now_ms() - 1000 * rules.uploads_seconds
        uploads, upload_bytes = Uploads(objects).abort_older(before_ms, dry_run=dry_run)
    dropped = hub.collect(dry_run=dry_run)
    database_bytes = 0 if dry_run else jobs.compact() + objects.catalog.compact()
    return Garbage(
        jobs=done.jobs,
        directories=done.directories,
        directory_bytes=done.bytes,
        environments=done.environments,
        environment_bytes=done.environment_bytes,
        uploads=uploads,
        upload_bytes=upload_bytes,
        database_bytes=database_bytes,
        stays=done.stays,
        hosts=hosts,
        hub_files=dropped.files,
        hub_bytes=dropped.bytes,
        tuning_jobs=done.tuning_jobs,
        executions=done.executions,
    )


def collect_stopped(
    data: Path, rules: Rules, runtimes: Callable[[], Sequence[Runtime]] = tuple, *, dry_run: bool = False
) -> Garbage:
    """Removes garbage from a data directory that no server uses. `runtimes`: those that may have started its hosts.

    Raises NoDataDirectory, UnknownSchema, DataDirectoryInUse.
    """
    contents.check_data_directory(data)
    lock = lock_directory(data)
    try:
        with _opened(data, SystemClock(), runtimes()) as (jobs, objects):
            objects.recover()
            return collect_garbage(jobs, objects, HubStore(data), rules, dry_run=dry_run)
    finally:
        lock.close()


class _Stopped:
    def __init__(self, store: Store, data: Path, clock: Clock, runtimes: Sequence[Runtime]) -> None:
        self.compact = store.compact
        self.end_orphans = partial(end_orphans, store, runtimes, data)
        self.collect = Collector(store, data, clock, Leftovers(data)).collect


@contextmanager
def _opened(data: Path, clock: Clock, runtimes: Sequence[Runtime]) -> Iterator[tuple[Jobs, S3Store]]:
    store, objects = Store(data / contents.JOBS_DATABASE), S3Store(data / contents.OBJECTS, clock)
    try:
        yield _Stopped(store, data, clock, runtimes), objects
    finally:
        objects.close()
        store.close()
