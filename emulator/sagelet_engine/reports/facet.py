"""What the API asks for: reports on jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sagelet_engine.base.clock import Clock
from sagelet_engine.doctor.finding import Severity
from sagelet_engine.instances.bill import Bill, bill
from sagelet_engine.model.job import Job, JobKey, JobStatus
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.reports import compile_reports, other_runs, processing_findings, trial_compilations
from sagelet_engine.reports.doctor_inputs import DoctorInputs
from sagelet_engine.reports.trial_compilations import TrialCompilations
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.progress import Progress, progress
from sagelet_engine.telemetry.compiler.report import CompilerReport, KeptFinding

if TYPE_CHECKING:
    from sagelet_engine.comparison.result import Comparison


class Reports:
    """Reports on jobs: the compile report, the doctor's findings, comparisons, the bill."""

    def __init__(self, store: Store, data: Path, objects: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._data = data
        self._objects = objects
        self._clock = clock

    def compiler(self, key: JobKey) -> CompilerReport | None:
        """Returns what compiling did for the job, so far or in total. None if no worker has reported. Raises
        JobNotFound.
        """
        job = as_training(self._store.get(key))
        report = compile_reports.current(self._data, job)
        return None if report is None else replace(report, findings=self._findings(job, report))

    def progress(self, key: JobKey) -> Progress:
        """Returns what the job's workers do now. Raises JobNotFound."""
        return progress(compile_reports.current(self._data, as_training(self._store.get(key))))

    def findings(self, key: JobKey) -> Sequence[KeptFinding]:
        """Returns the doctor's findings as of now (docs/reference/doctor.md). JSON-ready. Raises JobNotFound."""
        job = self._store.get(key)
        if isinstance(job, ProcessingJob):
            return processing_findings.current(self._store, self._data, job)
        job = as_training(job)
        return self._findings(job, compile_reports.current(self._data, job) or CompilerReport())

    def compare(self, keys: Sequence[JobKey], *, anyway: bool = False, steps: int | None = None) -> "Comparison":
        """Compares jobs with the first of them. `steps`: the length of a training whose bill is asked for.

        Raises JobNotFound, CannotCompare, NotComparable (unless `anyway`).
        """
        # Few servers compare, and loading it takes a tenth of the time of a start.
        from sagelet_engine.comparison import comparing
        from sagelet_engine.reports.comparison_inputs import ComparisonInputs

        now_ms = self._clock.now_ms()
        inputs = ComparisonInputs(self._store, self._data, self._objects)
        jobs = [as_training(self._store.get(key)) for key in keys]
        runs = other_runs.candidates(self._store, jobs[0], jobs) if jobs else ()
        facts, others = ([inputs.of(job, now_ms) for job in some] for some in (jobs, runs))
        return comparing.compare(facts, others, anyway=anyway, steps=steps)

    def compilations(self, jobs: Iterable[TrainingJob]) -> TrialCompilations:
        """Counts jobs by where their programs came from: a compilation, or the compile cache."""
        return trial_compilations.counted(compile_reports.current(self._data, job) for job in jobs)

    def bill(self, job: Job) -> Bill:
        """Returns what AWS would charge for the job, as of now."""
        return bill(job, self._clock.now_ms())

    def _findings(self, job: TrainingJob, report: CompilerReport) -> compile_reports.Findings:
        """Those that were kept when the hosts had ended count, unless the job failed later: by its uploads."""
        explained = job.status is not JobStatus.FAILED or any(
            one["severity"] == Severity.ERROR.value for one in report.findings
        )
        if report.final and explained:
            return report.findings
        return DoctorInputs(self._store, self._data).findings(job, report, self._clock.now_ms())
