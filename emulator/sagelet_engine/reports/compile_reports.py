"""The compile report of one attempt of a job: read live from its hosts, and kept as a file after they have ended.

The file is in a directory of its own, which is removed with the job's directory and goes into output.tar.gz.
"""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from sagelet_engine.base.clock import Clock
from sagelet_engine.compile_cache.store import CacheStore
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.doctor.text import log_lines
from sagelet_engine.model.sinks import MetricSink, publish
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.reports import known_speeds
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.points import points
from sagelet_engine.telemetry.compiler.reading import ran_notes_of, workers_of
from sagelet_engine.telemetry.compiler.report import CompilerReport, KeptFinding
from sagelet_engine.telemetry.compiler.text import counted, summary
from sagelet_engine.telemetry.compiler.worker import WorkerReport

FILE = "compiler-report.json"
Findings = tuple[KeptFinding, ...]
#: Takes a host's name (empty: the first host) and a line.
Note = Callable[[str, str], None]
Diagnose = Callable[[CompilerReport], Findings]


def read(job: TrainingJob, directories: JobDirectories, *, final: bool = False) -> CompilerReport | None:
    """Returns what the workers of the attempt have reported so far, or None if they have reported nothing.

    `final`: its hosts are down.
    """
    workers = [worker for host in job.hosts for worker in workers_of(directories.host(host).opt_ml, host)]
    return _of(job, workers, directories, final=final) if workers else None


def _of(
    job: TrainingJob, workers: Iterable[WorkerReport], directories: JobDirectories, *, final: bool
) -> CompilerReport:
    told = job.compilation
    reason = told.reason if told is not None and not told.compiled else ""
    report = CompilerReport.of(job.key.name, workers, job.attempt, final=final, reason=reason)
    if report.compiled or reason:
        return report
    report = replace(report, not_imported=_not_imported(job, directories) if final else "")
    return replace(report, reason=_why_native(report))


def _why_native(report: CompilerReport) -> str:
    """Returns why nothing of a compiled job is compiled, by what ran in it. Empty if that is not known."""
    said = next((worker for worker in report.workers if worker.not_compiled), None)
    if said is not None:
        return f"{said.not_compiled}; {counted(said.optimizer_steps, 'optimizer step')} ran natively"
    return f"no process of the job imported {report.not_imported}" if report.not_imported else ""


def _not_imported(job: TrainingJob, directories: JobDirectories) -> str:
    """Returns the package without which nothing of a compiled job is compiled, if no process has imported it.

    Empty if one has, or if no process has noted it.
    """
    notes = [note for host in job.hosts for note in ran_notes_of(directories.host(host).opt_ml)]
    asked = [note for note in notes if note.compiler]
    if not asked or any(note.loaded for note in asked):
        return ""
    return asked[0].compiler


def kept(directories: JobDirectories) -> CompilerReport | None:
    """Returns the report that was kept when the attempt's hosts were down, or the last one seen."""
    try:
        text = (directories.report / FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return CompilerReport.from_json(json.loads(text))


def current(data: Path, job: TrainingJob) -> CompilerReport | None:
    """Returns the newest report of a job in any status, or None if no worker has reported."""
    directories = JobDirectories.of(data, job)
    saved = kept(directories)
    if job.terminal or (saved is not None and saved.final and saved.attempt == job.attempt):
        return saved
    return read(job, directories) or saved


class CompileReports:
    """Keeps the report of the current attempt, and passes its figures on."""

    def __init__(self, store: Store, sink: MetricSink, clock: Clock, directories: JobDirectories) -> None:
        self._store = store
        self._sink = sink
        self._clock = clock
        self._directories = directories
        self._published: dict[str, float] = {}

    def look(self, job: TrainingJob, note: Note) -> None:
        """Sends changed figures to CloudWatch while the hosts run. `note` takes lines for the job's log."""
        report = read(job, self._directories)
        if report is not None:
            self._keep(report)
            self._publish(job, report, note)

    def conclude(self, job: TrainingJob, diagnose: Diagnose | None, note: Note, cache: CacheStore) -> list[str]:
        """Keeps the report of hosts that are down. Returns lines for the log of a compiled job. May be repeated.

        Without `diagnose` it keeps the findings of an earlier call. `cache`: where the speeds of earlier runs are.
        """
        directories = self._directories
        report = read(job, directories, final=True) or _of(job, (), directories, final=True)
        report = replace(report, others=known_speeds.others(cache, job, report))
        findings = self._earlier(job) if diagnose is None else diagnose(report)
        if not report.workers and not findings and not report.reason:
            return []
        report = replace(report, findings=findings)
        self._keep(report)
        if report.workers:
            self._publish(job, report, note)
        own = [f"sagelet: {summary(report)}"] if report.compiled else []
        # A host that could not compile has said so at the start.
        told = job.compilation is not None and not job.compilation.compiled
        own += [f"sagelet: NOT COMPILED: {report.reason}"] if report.reason and not told else []
        own += [line] if (line := known_speeds.line(report)) else []
        return own + list(log_lines(job.key.name, findings))

    def _earlier(self, job: TrainingJob) -> Findings:
        saved = kept(self._directories)
        return saved.findings if saved is not None and saved.attempt == job.attempt else ()

    def _keep(self, report: CompilerReport) -> None:
        directory = self._directories.report
        directory.mkdir(parents=True, exist_ok=True)
        scratch = self._directories.report_scratch
        scratch.write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
        os.replace(scratch, directory / FILE)

    def _publish(self, job: TrainingJob, report: CompilerReport, note: Note) -> None:
        changed = [
            point for point in points(report, self._clock.now_ms()) if self._published.get(point.name) != point.value
        ]
        if changed:
            self._store.points.put_host(job.id, changed)
            publish(self._sink, job.key, changed, note)
        self._published |= {point.name: point.value for point in changed}
