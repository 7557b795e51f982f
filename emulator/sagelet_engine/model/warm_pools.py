"""The rules of warm pools, on records: which jobs leave one, who may take it, and when it is over.

Sources: AWS developer guide, "SageMaker AI Managed Warm Pools"; botocore shapes WarmPoolStatus and ResourceConfig.
"""

import json
from dataclasses import replace

from sagelet_engine.model.job import J, Job, JobStatus, PoolStatus, WarmPool

#: A cluster may go from job to job for 28 days.
LONGEST_LIFE_MS = 28 * 86_400_000
#: Faults of the job, not of its hosts. They leave a pool.
HARMLESS = ("AlgorithmError", "ClientError")


def match_key(job: Job) -> str | None:
    """Returns a key that is equal for jobs that may follow each other on the same hosts. None if the job takes no warm
    pool.

    sagelet has no session tags, so they count as equal for all jobs.
    """
    if job.spec.spot or job.spec.pool_settings is None:
        return None
    return json.dumps((job.key.account, job.key.region, job.spec.role, *job.spec.pool_settings))


def after_end(job: Job) -> WarmPool | None:
    """Returns the pool of a job that has just ended, or None if it never had one.

    The hosts of a job that failed for its own reason are sound. After any other failure they are not kept.
    """
    if job.cluster is None:
        return None
    first_ms = job.placed_ms if job.warm_pool is None else job.warm_pool.cluster_ms
    pool = WarmPool(PoolStatus.AVAILABLE, job.cluster, first_ms, available_ms=job.modified_ms)
    kept = replace(job, warm_pool=pool)
    sound = job.status is not JobStatus.FAILED or (job.failure_reason or "").startswith(HARMLESS)
    if sound and first_ms is not None and match_key(job) is not None and job.modified_ms < deadline_ms(kept):
        return pool
    return replace(pool, status=PoolStatus.TERMINATED, available_ms=None, ended_ms=job.modified_ms)


def deadline_ms(job: Job) -> int:
    """Returns the end of an Available pool: KeepAlivePeriodInSeconds after its job's end, and never beyond 28 days."""
    pool = job.warm_pool
    assert pool is not None
    assert pool.available_ms is not None
    assert pool.cluster_ms is not None
    return min(pool.available_ms + job.spec.keep_alive_seconds * 1000, pool.cluster_ms + LONGEST_LIFE_MS)


def after_update(job: J, now_ms: int) -> J:
    """Returns the job after its period was changed. With the new one, an Available pool may be over."""
    return terminate(job, now_ms) if job.pool_available and now_ms >= deadline_ms(job) else job


def terminate(job: J, at_ms: int) -> J:
    """Returns the job after its Available pool was given up."""
    return _ended(job, PoolStatus.TERMINATED, at_ms)


def reuse(owner: J, job: J, now_ms: int) -> tuple[J, J]:
    """Returns both jobs after the Available pool of `owner` went to `job`, which still needs GPUs and a place."""
    assert owner.warm_pool is not None
    given = _ended(owner, PoolStatus.REUSED, now_ms, reused_by=job.key.name)
    taken = WarmPool(PoolStatus.IN_USE, owner.warm_pool.cluster, owner.warm_pool.cluster_ms)
    return given, replace(job, warm_pool=taken)


def _ended(job: J, status: PoolStatus, at_ms: int, reused_by: str | None = None) -> J:
    assert job.warm_pool is not None
    assert job.warm_pool.available_ms is not None
    at_ms = max(at_ms, job.warm_pool.available_ms)
    pool = replace(job.warm_pool, status=status, ended_ms=at_ms, reused_by=reused_by)
    return replace(job, warm_pool=pool, modified_ms=max(job.modified_ms, at_ms))
