"""Removes what ended jobs leave behind: their directories by age and size, their records by age.

Packages that they installed from requirements files stay as long as directories do.

On AWS the disks of a job's instances are gone when it ends. Here they stay for a while, because people look at them.
"""

import logging
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import JobNotDeletable, JobNotFound, WarmPoolAvailable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.data import removal
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.data.removal import Cleared, DirectoryStays, Leftovers
from sagelet_engine.model.job import Job
from sagelet_engine.model.orchestration import OrchestrationKind
from sagelet_engine.reports import code_digest
from sagelet_engine.retention.environments import Environment, Environments
from sagelet_engine.store.jobs import EndedJob, StaleRecord, Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Keep:
    """Limits of time and size for files of ended jobs. None means no limit."""

    #: Seconds since the job ended (or was last changed), or since kept packages were last used.
    files_seconds: int | None = None
    #: Bytes of the directories of ended jobs except the youngest, as `du` counts them. As much again for kept packages.
    files_bytes: int | None = None
    #: Seconds since the end after which the job itself is removed, with its logs and metrics.
    jobs_seconds: int | None = None


@dataclass(frozen=True)
class Collected:
    """What was removed, or would be in a dry run."""

    #: Number of jobs that were forgotten.
    jobs: int = 0
    #: Number of jobs whose directories were removed, including forgotten jobs.
    directories: int = 0
    #: Their bytes on the disk, as `du` counts.
    bytes: int = 0
    #: Number of kept packages that were removed, and their bytes.
    environments: int = 0
    environment_bytes: int = 0
    #: Why something could not be removed, for people.
    stays: tuple[str, ...] = ()
    #: Number of tuning jobs that were forgotten.
    tuning_jobs: int = 0
    #: Number of executions of pipelines that were forgotten, with their steps. Pipelines stay.
    executions: int = 0


class Collector:
    """Removes files and records. Only the process that owns the data directory may use it."""

    def __init__(self, store: Store, data: Path, clock: Clock, leftovers: Leftovers) -> None:
        self._store = store
        self._data = data
        self._clock = clock
        self._leftovers = leftovers
        self._guard = threading.Lock()
        #: Bytes of the directories of ended jobs by job id. They do not change any more.
        self._sizes: dict[str, int] = {}
        self._environments = Environments(data)

    def forget(self, job: Job, size: int | None = None) -> None:
        """Deletes a job that has ended: directory, then record, tags, logs and metrics. What is in S3 stays.

        The directory is moved away first: a crash in between leaves a record that can be deleted again. Its files are
        deleted later, by `clear`. `size`: their bytes, if known.
        Raises JobNotFound, JobNotDeletable, WarmPoolAvailable, DirectoryStays.
        """
        while True:
            if not job.terminal:
                raise JobNotDeletable(job.status.value)
            if job.pool_available:
                raise WarmPoolAvailable(job.key.name)
            with self._guard:
                self._leftovers.take([_root(self._data, job.key.account, job.key.region, job.id)], size)
                failpoint(Failpoint.BEFORE_DELETE)
            try:
                self._store.delete(job)
                failpoint(Failpoint.AFTER_DELETE)
                return
            except StaleRecord:
                job = self._store.get_by_id(job.id)

    def collect(self, keep: Keep, *, dry_run: bool = False) -> Collected:
        """Removes what exceeds `keep`. Raises StoreUnavailable."""
        ended = self._store.ended_jobs()
        self._forget_sizes(ended)
        sizes = {job.id: size for job in ended if (size := self._size(job))}
        forgotten = self._before_ms(keep.jobs_seconds)
        # A tuning job or an execution that runs looks at its jobs. Their files may go.
        awaited = self._store.orchestrations.awaited_jobs()
        gone = {job.id for job in ended if job.modified_ms <= forgotten and job.id not in awaited}
        left = [job for job in ended if job.id not in gone and job.id in sizes]
        files = _too_much(left, sizes, self._before_ms(keep.files_seconds), keep.files_bytes)
        wanted = [*(one for one in ended if one.id in gone), *files]
        stays: list[str] = []
        if dry_run:
            jobs, cleared = len(gone), self._would_clear([sizes.get(job.id, 0) for job in wanted])
        else:
            with self._leftovers.clearing:
                jobs, cleared = self._withdraw(wanted, gone, stays), self._leftovers.clear()
        # After their jobs, so that a job that is there has its tuning job and its execution.
        made = self._store.orchestrations.forget_ended(forgotten, dry_run=dry_run)
        environments = self._environments_gone(keep, stays, dry_run=dry_run)
        taken = sum(one.bytes for one in environments)
        return Collected(
            jobs=jobs,
            directories=cleared.directories,
            bytes=cleared.bytes,
            environments=len(environments),
            environment_bytes=taken,
            stays=(*stays, *cleared.stays),
            tuning_jobs=made[OrchestrationKind.TUNING],
            executions=made[OrchestrationKind.PIPELINE_EXECUTION],
        )

    def _withdraw(self, wanted: Sequence[EndedJob], gone: Collection[str], stays: list[str]) -> int:
        """Moves away what these jobs have left, and forgets those that are `gone`. Returns the number of those."""
        jobs = 0
        for job in wanted:
            try:
                if job.id in gone:
                    jobs += self._forget(job)
                else:
                    self._remove_files(job)
            except DirectoryStays as error:
                stays.append(str(error))
        return jobs

    def _would_clear(self, more: Iterable[int]) -> Cleared:
        sizes, stays = [*more], list[str]()
        try:
            sizes += self._leftovers.sizes().values()
        except DirectoryStays as error:
            stays.append(str(error))
        return Cleared(sum(size > 0 for size in sizes), sum(sizes), tuple(stays))

    def clear(self) -> tuple[str, ...]:
        """Deletes the files of jobs that were deleted. Returns why something could not be, for people."""
        return self._leftovers.clear(measured=False).stays

    def _environments_gone(self, keep: Keep, stays: list[str], *, dry_run: bool) -> list[Environment]:
        before = self._before_ms(keep.files_seconds)
        try:
            return self._environments.trim(before, keep.files_bytes, dry_run=dry_run)
        except (OSError, DirectoryStays) as error:
            stays.append(f"packages that jobs installed stay: {error}")
            return []

    def _before_ms(self, seconds: int | None) -> int:
        return -1 if seconds is None else self._clock.now_ms() - 1000 * seconds

    def _forget(self, ended: EndedJob) -> bool:
        try:
            self.forget(self._store.get_by_id(ended.id), self._size(ended))
        except (JobNotFound, JobNotDeletable, WarmPoolAvailable) as error:
            log.debug("%s is not forgotten: %s", ended.id, error)
            return False
        self._sizes.pop(ended.id, None)
        return True

    def _remove_files(self, ended: EndedJob) -> None:
        try:
            job = self._store.get_by_id(ended.id)
        except JobNotFound:
            return
        if not job.terminal or job.pool_available:
            return
        root = _root(self._data, ended.account, ended.region, ended.id)
        with self._guard:
            if not root.is_symlink() and root.is_dir():
                code_digest.keep(self._data, job)
            self._leftovers.take(_removable(root), self._size(ended))
            # Most jobs have no report, and an empty directory takes a block of the disk.
            removal.remove_empty(JobDirectories(root).report)
            removal.remove_empty(root)
        self._sizes[ended.id] = 0

    # --- sizes ------------------------------------------------------------------------------------------------

    def _size(self, ended: EndedJob) -> int:
        """Returns the bytes on the disk that removing a job's files frees. A directory is walked once."""
        if ended.id not in self._sizes:
            root = _root(self._data, ended.account, ended.region, ended.id)
            self._sizes[ended.id] = sum(map(removal.bytes_below, _removable(root)))
        return self._sizes[ended.id]

    def _forget_sizes(self, ended: list[EndedJob]) -> None:
        known = {job.id for job in ended}
        self._sizes = {job_id: size for job_id, size in [*self._sizes.items()] if job_id in known}


def _root(data: Path, account: str, region: str, job_id: str) -> Path:
    return data / "jobs" / account / region / job_id


def _removable(root: Path) -> Iterator[Path]:
    """Yields all of a job's directory but its report, which the doctor and the comparison need.

    A script that runs as the server's user may have locked the directory, or put something else in its place.
    """
    try:
        removal.unlock(str(root))
        if root.is_symlink() or not root.is_dir():
            yield root
            return
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return
    yield from (root / name for name in names if root / name != JobDirectories(root).report)


def _too_much(jobs: list[EndedJob], sizes: Mapping[str, int], old_ms: int, most: int | None) -> Iterator[EndedJob]:
    """Yields the jobs whose files are removed, the oldest first: too old ones, then others until the rest fits.

    `most`: bytes that the files may take, or None. To fit, all files but those of the newest job may go.
    """
    above = 0 if most is None else sum(sizes[job.id] for job in jobs) - most
    for job in jobs:
        if job.modified_ms <= old_ms or (above > 0 and job is not jobs[-1]):
            above -= sizes[job.id]
            yield job
