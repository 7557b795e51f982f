"""Finds other runs of a job: their spread says how far losses differ by chance."""

from collections.abc import Iterator, Sequence
from itertools import islice

from sagelet_engine.comparison.comparable import CODE_CHANNELS
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.listing import JobQuery
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.store.jobs import Store

#: Among so many of the newest completed jobs of an account and region. A record has some kilobytes.
LOOKED_AT = 200
#: More runs do not make the spread much better known, and each run's log is read.
MOST_RUNS = 10


def candidates(store: Store, job: TrainingJob, compared: Sequence[TrainingJob]) -> Iterator[TrainingJob]:
    """Yields at most MOST_RUNS completed jobs whose requests are like the job's; `compared` are left out.

    Whether they are runs of the same training, `comparing.is_another_run` finds by scripts, data and reports.
    """
    key = job.key
    query = JobQuery(key.account, key.region, status=JobStatus.COMPLETED, ascending=False, limit=LOOKED_AT)
    left_out = {one.id for one in compared}
    found = (
        one for one in map(as_training, store.page(query).jobs) if one.id not in left_out and _asked(one) == _asked(job)
    )
    yield from islice(found, MOST_RUNS)


def _asked(job: TrainingJob) -> tuple[object, ...]:
    """Returns what runs of one training have in common; the SDK's own hyperparameters name the job."""
    given = {name: value for name, value in job.spec.hyperparameters.items() if not name.startswith("sagemaker_")}
    channels = [one for one in job.spec.channels if one.name not in CODE_CHANNELS]
    hosts = [(group.instance_type, len(group.hosts)) for group in job.spec.instance_groups]
    return job.spec.image, given, channels, hosts
