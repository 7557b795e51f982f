"""The warm pools that wait for a matching job, and the directories that go with them.

What is true of a pool is in the record of the job that left it. What is here only says where to look: every decision
reads the record anew and is guarded by its version, so an entry that is out of date does no harm.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagelet_engine.data import removal
from sagelet_engine.data.layout import cluster_directory, clusters_directory
from sagelet_engine.errors import JobNotFound
from sagelet_engine.failpoints import Failpoint, failpoint
from sagelet_engine.jobs import warm_pools
from sagelet_engine.jobs.record import PoolStatus, TrainingJob
from sagelet_engine.jobs.store import StaleRecord, Store

log = logging.getLogger(__name__)


class PoolKeeper:
    """Thread-safe."""

    def __init__(self, store: Store, data: Path) -> None:
        self._store = store
        self._data = data
        self._guard = threading.Lock()
        #: Jobs that left a pool: its match key and its deadline in ms since the epoch.
        self._available: dict[str, tuple[str, int]] = {}

    def restore(self, unfinished: Sequence[TrainingJob]) -> list[TrainingJob]:
        """The jobs whose pools are Available, all held again; the directories of pools that are no more are removed.

        To be called before any other job can begin a pool.
        """
        available = self._store.with_warm_pool(PoolStatus.AVAILABLE)
        for job in available:
            self.hold(job)
        living = {job.cluster for job in (*available, *unfinished)}
        root = clusters_directory(self._data)
        for path in root.iterdir() if root.is_dir() else ():
            if path.name not in living:
                self._discard(path.name)
        return available

    def hold(self, job: TrainingJob) -> None:
        """Offers the pool that a job has left; again with a new deadline when its period was changed."""
        key = warm_pools.match_key(job)
        if key is not None and job.pool_available:
            with self._guard:
                self._available[job.id] = key, warm_pools.deadline_ms(job)

    def keys(self) -> list[str]:
        """Match keys of the pools that are offered."""
        with self._guard:
            return [key for key, _ in self._available.values()]

    def reuse(self, job: TrainingJob, now_ms: int) -> tuple[TrainingJob, TrainingJob] | None:
        """The job that left a pool, and the one given with its hosts, neither of them written; None: no pool fits.

        The store is asked, since a client may see a pool before its job's thread has told us of it.
        """
        key = warm_pools.match_key(job)
        if key is None:
            return None
        with self._guard:
            held = [job_id for job_id, (offered, _) in self._available.items() if offered == key]
        owners = [owner for owner in self._store.with_warm_pool(PoolStatus.AVAILABLE) if _fits(owner, key, now_ms)]
        for job_id in held:
            if all(owner.id != job_id for owner in owners):
                self._read(job_id)
        return warm_pools.reuse(owners[0], job, now_ms) if owners else None

    def expire(self, now_ms: int) -> Iterator[TrainingJob]:
        """Terminates the pools whose time is over; gives their jobs, and those whose pool turns out to be gone."""
        with self._guard:
            due = [job_id for job_id, (_, deadline) in self._available.items() if now_ms >= deadline]
        for job_id in due:
            owner = self._read(job_id)
            if owner is None:
                continue
            if not owner.pool_available:
                yield owner
            elif now_ms < (deadline := warm_pools.deadline_ms(owner)):
                self.hold(owner)
            else:
                try:
                    ended = self._store.update(warm_pools.terminate(owner, deadline))
                except StaleRecord:
                    log.debug("%s: its warm pool changed as it ended; looking again", owner.key.name)
                    continue
                failpoint(Failpoint.AFTER_POOL_END)
                yield ended

    def forget(self, job_id: str) -> None:
        """The pool of this job is offered no more."""
        with self._guard:
            self._available.pop(job_id, None)

    def drop(self, job: TrainingJob) -> None:
        """A job has no pool to offer (any more); what a Terminated one kept on the disk goes."""
        self.forget(job.id)
        if job.warm_pool is not None and job.warm_pool.status is PoolStatus.TERMINATED:
            self._discard(job.warm_pool.cluster)

    def _discard(self, cluster: str) -> None:
        """In the background: a cache may be large."""
        directory = cluster_directory(self._data, cluster)
        if directory.is_dir():
            threading.Thread(target=_remove, args=(directory,), name=f"discard-{cluster}", daemon=True).start()

    def _read(self, job_id: str) -> TrainingJob | None:
        """The job, if it is there still; it is forgotten when it has no Available pool."""
        try:
            job = self._store.get_by_id(job_id)
        except JobNotFound:
            self.forget(job_id)
            return None
        if not job.pool_available:
            self.forget(job_id)
        return job


def _fits(owner: TrainingJob, key: str, now_ms: int) -> bool:
    return warm_pools.match_key(owner) == key and now_ms < warm_pools.deadline_ms(owner)


def _remove(directory: Path) -> None:
    try:
        removal.remove_tree(directory)
    except removal.DirectoryStays as error:
        log.warning("the cache of a warm pool stays until the next start: %s", error)
