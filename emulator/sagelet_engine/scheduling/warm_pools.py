"""Finds the warm pools that wait for a matching job, and owns their directories.

The state of a pool is in the record of the job that left it. This module only remembers which records to read: every
decision loads the record again and is guarded by its version, so an outdated entry does no harm.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.data.layout import cluster_directory, clusters_directory
from sagelet_engine.data.removal import DirectoryStays, Leftovers
from sagelet_engine.model import warm_pools
from sagelet_engine.model.job import Job, PoolStatus
from sagelet_engine.store.jobs import StaleRecord, Store

log = logging.getLogger(__name__)


class WarmPools:
    """The warm pools of one server. Thread-safe."""

    def __init__(self, store: Store, data: Path, leftovers: Leftovers) -> None:
        self._store = store
        self._data = data
        self._leftovers = leftovers
        self._guard = threading.Lock()
        #: For each job that left a pool: the pool's match key, and its deadline in ms since the epoch.
        self._available: dict[str, tuple[str, int]] = {}

    def restore(self, unfinished: Sequence[Job]) -> list[Job]:
        """Offers all Available pools again and returns their jobs. Removes the directories of pools that have ended.

        Call it before any other job can begin a pool.
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

    def hold(self, job: Job) -> None:
        """Offers the pool that a job has left. Call it again after the period has changed to set the new deadline."""
        key = warm_pools.match_key(job)
        if key is not None and job.pool_available:
            with self._guard:
                self._available[job.id] = key, warm_pools.deadline_ms(job)

    def keys(self) -> list[str]:
        """Returns the match keys of the offered pools."""
        with self._guard:
            return [key for key, _ in self._available.values()]

    def offers(self, key: str | None) -> bool:
        """True if a pool with this match key is offered."""
        with self._guard:
            return any(offered == key for offered, _ in self._available.values())

    def reuse(self, job: Job, now_ms: int) -> tuple[Job, Job] | None:
        """Returns the job that left a pool and `job` with that pool's hosts, or None if no pool fits.

        Neither record is written. The pool is looked up in the store, since a client may see one before `hold` was
        called for it.
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

    def expire(self, now_ms: int) -> Iterator[Job]:
        """Terminates pools whose period is over. Yields their jobs, and the jobs whose pool is found to be gone."""
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
        """Stops offering the pool of this job."""
        with self._guard:
            self._available.pop(job_id, None)

    def drop(self, job: Job) -> None:
        """Stops offering a job's pool, if it has one. Removes what a Terminated pool kept on the disk."""
        self.forget(job.id)
        if job.warm_pool is not None and job.warm_pool.status is PoolStatus.TERMINATED:
            self._discard(job.warm_pool.cluster)

    def _discard(self, cluster: str) -> None:
        try:
            self._leftovers.take([cluster_directory(self._data, cluster)])
        except DirectoryStays as error:
            log.warning("the cache of a warm pool stays until the next start: %s", error)

    def _read(self, job_id: str) -> Job | None:
        """Returns the job, or None if it is gone. Stops offering it if it has no Available pool."""
        try:
            job = self._store.get_by_id(job_id)
        except JobNotFound:
            self.forget(job_id)
            return None
        if not job.pool_available:
            self.forget(job_id)
        return job


def _fits(owner: Job, key: str, now_ms: int) -> bool:
    return warm_pools.match_key(owner) == key and now_ms < warm_pools.deadline_ms(owner)
