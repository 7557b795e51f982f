"""Reports on jobs: the compile report, the doctor's findings, comparisons, the bill."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sagelet_engine.base.clock import Clock
from sagelet_engine.comparison import comparing
from sagelet_engine.comparison.result import Comparison
from sagelet_engine.instances.bill import Bill, bill
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.reports import compile_reports
from sagelet_engine.reports.consultation import Consultation
from sagelet_engine.reports.measurements import Measurements
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.progress import Progress, progress
from sagelet_engine.telemetry.compiler.report import CompilerReport


class Reports:
    def __init__(self, store: Store, data: Path, objects: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._data = data
        self._objects = objects
        self._clock = clock

    def compiler(self, key: JobKey) -> CompilerReport | None:
        """Returns what compiling did for the job, so far or in total. None if no worker has reported. Raises
        JobNotFound.
        """
        job = self._store.get(key)
        report = compile_reports.current(self._data, job)
        if report is None or report.final:
            return report
        return replace(report, findings=self._consult(job, report))

    def progress(self, key: JobKey) -> Progress:
        """Returns what the job's workers do now. Raises JobNotFound."""
        return progress(compile_reports.current(self._data, self._store.get(key)))

    def findings(self, key: JobKey) -> Sequence[Mapping[str, Any]]:
        """Returns the doctor's findings as of now (docs/reference/doctor.md). JSON-ready. Raises JobNotFound."""
        job = self._store.get(key)
        report = compile_reports.current(self._data, job)
        if report is not None and report.final:
            return report.findings
        return self._consult(job, report or CompilerReport())

    def compare(self, keys: Sequence[JobKey], *, anyway: bool = False) -> Comparison:
        """Compares jobs with the first of them. Raises JobNotFound, CannotCompare, NotComparable (unless `anyway`)."""
        now_ms = self._clock.now_ms()
        measurements = Measurements(self._store, self._data, self._objects)
        jobs = [self._store.get(key) for key in keys]
        return comparing.compare([measurements.of(job, now_ms) for job in jobs], anyway=anyway)

    def bill(self, job: TrainingJob) -> Bill:
        """Returns what AWS would charge for the job, as of now."""
        return bill(job, self._clock.now_ms())

    def _consult(self, job: TrainingJob, report: CompilerReport) -> compile_reports.Findings:
        return Consultation(self._store, self._data).findings(job, report, self._clock.now_ms())
