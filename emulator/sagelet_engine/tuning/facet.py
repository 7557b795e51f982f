"""What the API asks for: tuning jobs and their trials."""

import uuid
from collections.abc import Callable

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.orchestration import OrchestrationKey
from sagelet_engine.model.search import JobSearch, SearchPage
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.model.tuning import Trial, TuningJob, WarmStart
from sagelet_engine.orchestration.facet import Orchestrations
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestration_codecs import TUNING
from sagelet_engine.store.searched import tuning_jobs
from sagelet_engine.tuning.bill import TuningBill, tuning_bill
from sagelet_engine.tuning.warm_start import ParentJob


class TuningJobs(Orchestrations[TuningJob, Trial]):
    """The tuning jobs of all accounts and regions."""

    def __init__(self, store: Store, clock: Clock, watch: Callable[[str], None]) -> None:
        super().__init__(store.orchestrations.of(TUNING), clock, watch)
        self._store = store

    def create(
        self, key: OrchestrationKey, request: JsonObject, tags: dict[str, str], warm_start: WarmStart | None = None
    ) -> TuningJob:
        """Makes a tuning job durable and begins it. `request`: a validated CreateHyperParameterTuningJob body. Raises
        OrchestrationNameInUse.
        """
        now_ms = self._clock.now_ms()
        job = TuningJob(key, uuid.uuid4().hex, request, now_ms, now_ms, tags=tags, warm_start=warm_start)
        self.begin(job)
        return job

    def search(self, query: JobSearch) -> SearchPage[TuningJob]:
        return self._kept.search(query, tuning_jobs(self._clock.now_ms()))

    def property_names(self, account: str, region: str, beginning: str, limit: int) -> list[str]:
        """Returns names of properties; see Kept.property_names."""
        return self._kept.property_names(account, region, beginning, limit)

    def bill(self, job: TuningJob) -> TuningBill:
        """Returns what AWS would charge for all training jobs of a tuning job, as of now."""
        return tuning_bill(job, self.trials(job), self._clock.now_ms())

    def parent(self, key: OrchestrationKey) -> ParentJob:
        """Returns a tuning job with its trials, for a warm start. Raises OrchestrationNotFound."""
        job = self._kept.get(key)
        return ParentJob(job, self._kept.children(job.id))

    def trials(self, job: TuningJob) -> list[tuple[Trial, TrainingJob | None]]:
        """Returns the trials in the order of creation. One that has not ended comes with its training job."""
        trials = self._kept.children(job.id)
        jobs = self._store.by_ids([one.job_id for one in trials if not one.ended])
        found = {job_id: as_training(job) for job_id, job in jobs.items()}
        return [(one, found.get(one.job_id)) for one in trials]
