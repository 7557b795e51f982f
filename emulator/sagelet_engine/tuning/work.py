"""The work of tuning jobs: what the orchestrator does for each of them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import JobNameInUse, JobNotFound, JobNotStoppable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobKey, JobStatus, Parent
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.model.tuning import Trial, TrialState, TuningJob, child_key
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestration_codecs import TUNING
from sagelet_engine.store.orchestrations import StaleOrchestration
from sagelet_engine.tuning.children import child_request
from sagelet_engine.tuning.curves import Curves
from sagelet_engine.tuning.decision import Decision, broken, decide, seen, stops_trials, watches, winds_down
from sagelet_engine.tuning.strategies.strategy import Curve

log = logging.getLogger(__name__)


class CreateJob(Protocol):
    """The engine's way of making a training job."""

    def __call__(
        self, key: JobKey, request: JsonObject, tags: dict[str, str], *, parent: Parent, job_id: str
    ) -> TrainingJob:
        """Raises JobNameInUse, also if the job exists already."""
        ...


class _Look(NamedTuple):
    #: The trials as they are written, and as they are now.
    before: list[Trial]
    trials: list[Trial]
    jobs: Mapping[str, TrainingJob]
    decision: Decision


class TuningWork:
    """A Work. `create` and `stop` are those that clients' calls go through."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        create: CreateJob,
        stop: Callable[[JobKey], None],
        awaits_time: Callable[[], bool] = lambda: True,
    ) -> None:
        """`awaits_time`: the runtime's."""
        self._store = store
        self._kept = store.orchestrations.of(TUNING)
        self._clock = clock
        self._create = create
        self._stop = stop
        self._awaits_time = awaits_time
        self._curves = Curves(store)
        #: The trials of each tuning job, as they are written with a version of its record.
        self._written: dict[str, tuple[int, list[Trial]]] = {}

    def step(self, record: TuningJob) -> float | None:
        look = self._look(record)
        if stops_trials(record, look.before, look.decision):
            # Other trials may report more, or end, at the same moment of simulated time.
            if not self._awaits_time():
                return self._clock.now_ms()
            look = self._look(record)
        _, trials, jobs, decision = look
        if decision.changed or decision.removed or decision.job != record:
            failpoint(Failpoint.BEFORE_DECISION)
            record = self._kept.update(decision.job, decision.changed, decision.removed)
            failpoint(Failpoint.AFTER_DECISION)
        if record.terminal:
            self._written.pop(record.id, None)
            self._curves.forget(record.id)
            return None
        gone = {one.ordinal for one in decision.removed}
        written = {one.ordinal: one for one in (*trials, *decision.changed) if one.ordinal not in gone}
        self._make_so(record, [*written.values()], jobs)
        return record.deadline_ms if record.ending is None else None

    def _look(self, record: TuningJob) -> _Look:
        """Reads the trials and decides."""
        before = self._trials(record)
        found = self._store.by_ids([one.job_id for one in before if not one.ended])
        jobs = {job_id: as_training(job) for job_id, job in found.items()}
        trials = [seen(one, jobs.get(one.job_id), self._objective(record, one, jobs)) for one in before]
        curves = self._curves.of(record, trials) if watches(record) else None
        return _Look(before, trials, jobs, self._decide(record, before, trials, curves))

    def _decide(
        self, record: TuningJob, before: Sequence[Trial], trials: Sequence[Trial], curves: Mapping[int, Curve] | None
    ) -> Decision:
        """Decides. A decision is a pure function, so an error would come back at each look: then the job fails."""
        now_ms = self._clock.now_ms()
        try:
            return decide(record, before, trials, now_ms, curves)
        except Exception as error:
            log.exception("%s: internal error", record.key.name)
            return decide(broken(record, error), before, trials, now_ms)

    def _trials(self, record: TuningJob) -> list[Trial]:
        """Returns the trials as they are written. Every write of them is one of the record, so they are read once for
        each of its versions, although the store changes with every line of any training job.
        """
        version, trials = self._written.get(record.id, (None, []))
        if version != record.version:
            trials = self._kept.children(record.id)
            self._written[record.id] = (record.version, trials)
        return trials

    def _objective(self, record: TuningJob, trial: Trial, jobs: Mapping[str, TrainingJob]) -> float | None:
        """Returns the last value of the objective metric of an ended training job. None if it was not finite."""
        job = jobs.get(trial.job_id)
        if job is None or not job.terminal:
            return None
        wanted = record.spec.definition(trial.definition).objective.metric
        if any(one.last for one in self._store.points.not_finite(job.id) if one.name == wanted):
            return None
        return next((point.value for point in self._store.last_points(job.id) if point.name == wanted), None)

    def _make_so(self, record: TuningJob, trials: Sequence[Trial], jobs: Mapping[str, TrainingJob]) -> None:
        """Makes the training jobs as the record says: creates the planned ones, and stops those that run no further."""
        for trial in trials:
            if trial.state is TrialState.PLANNED:
                self._launch(record, trial)
            elif trial.state is TrialState.CREATED and (trial.halted or winds_down(record)):
                job = jobs.get(trial.job_id)
                if job is not None and job.status is JobStatus.IN_PROGRESS:
                    self._halt(job.key)

    def _launch(self, record: TuningJob, trial: Trial) -> None:
        """Creates a trial's training job, unless it exists. AWS gives it the tags that the tuning job has now."""
        parent = Parent(record.id, record.key.arn)
        key, request = child_key(record, trial), child_request(record, trial)
        failpoint(Failpoint.BEFORE_CHILD)
        try:
            self._create(key, request, dict(record.tags), parent=parent, job_id=trial.job_id)
        except JobNameInUse as error:
            if self._store.by_ids([trial.job_id]):
                return
            # Somebody else's job has the name.
            reason = aws_texts.name_taken(error.arn)
            ended = replace(trial, state=TrialState.ENDED, status=JobStatus.FAILED, failure_reason=reason)
            self._kept.update(record, [ended])
            raise StaleOrchestration(record.key.name) from error
        failpoint(Failpoint.AFTER_CHILD)

    def _halt(self, key: JobKey) -> None:
        try:
            self._stop(key)
        except (JobNotFound, JobNotStoppable):
            # It has ended meanwhile, and the next look sees how.
            return
        failpoint(Failpoint.AFTER_CHILD_STOP)
