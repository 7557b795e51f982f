"""Numbers of jobs: from their logs, of their hosts, and what clients put into trial components."""

from collections.abc import Sequence

from sagelet_engine.model.series import Sample
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.store.jobs import Store


class Metrics:
    def __init__(self, store: Store) -> None:
        self._store = store

    def final(self, job: TrainingJob) -> list[MetricPoint]:
        """The last value of each of the job's metrics (FinalMetricDataList)."""
        return self._store.last_points(job.id)

    def of_job(self, job: TrainingJob, name: str) -> list[Sample]:
        """What a metric definition of the job found in its log."""
        return self._store.points.of_job(job.id, name)

    def names(self, job: TrainingJob) -> list[str]:
        """The metrics that have samples in the job's log."""
        return self._store.lines.metric_names(job.id)

    def curve(self, job: TrainingJob, name: str, most: int, host: str | None = None) -> list[Sample]:
        """See Lines.curve."""
        return self._store.lines.curve(job.id, name, most, host)

    def of_hosts(self, job: TrainingJob) -> list[MetricPoint]:
        """The instance metrics of the job's hosts, by time."""
        return self._store.points.of_hosts(job.id)

    def put_component(
        self, account: str, region: str, component: str, job: TrainingJob | None, named: Sequence[tuple[str, Sample]]
    ) -> None:
        """Adds samples to metrics of a trial component, which may be a job's own."""
        self._store.points.put(account, region, component, None if job is None else job.id, named)

    def of_component(self, account: str, region: str, component: str, name: str) -> list[Sample]:
        """What was put into a metric of a trial component."""
        return self._store.points.of_component(account, region, component, name)
