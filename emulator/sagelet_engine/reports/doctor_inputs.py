"""Collects the doctor's inputs: a job's request, scripts, report, last lines, and a native job to compare with."""

import json
import os
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from sagelet_engine.base import nofollow
from sagelet_engine.data.compilation import asks_for_compiler, asks_for_debug_mode, chosen_compiler
from sagelet_engine.data.end_notes import end_notes
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.doctor.case import Baseline, Case, Idle, Progress, Setup, Waiting
from sagelet_engine.doctor.diagnosis import diagnose
from sagelet_engine.doctor.reading import SOURCES, read_sources
from sagelet_engine.doctor.sources import Sources
from sagelet_engine.model import verdict
from sagelet_engine.model.job import Job, JobStatus, SecondaryStatus, StopCause, Verdict
from sagelet_engine.model.listing import JobQuery
from sagelet_engine.model.runtime import Observation
from sagelet_engine.model.training import TrainingJob, as_training
from sagelet_engine.reports import compile_reports, idle_time
from sagelet_engine.reports.idle_time import Window
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.reading import idle_notes_of, ran_notes_of
from sagelet_engine.telemetry.compiler.report import CompilerReport, KeptFinding
from sagelet_engine.telemetry.near_matches import Budget, Unmatched, unmatched

#: Number of a host's last lines that may say why it failed.
LAST_LINES = 300
#: Number of its last lines that metric definitions without a value are compared with.
NEAR_LINES = 1_000
#: Number of newest jobs that are searched for a native one.
RECENT_JOBS = 100
PROGRAM = "sagemaker_program"
#: Parts of the names of hyperparameters that may differ between a native job and its compiled one.
_VARIED = ("batch", "learning_rate", "lr", "epoch", "steps", "n_gpus", "num_gpus", "sagemaker_", "training_script")


@dataclass(frozen=True)
class End:
    """How a job ends, known once all its hosts are down."""

    verdict: Verdict
    hosts: Mapping[str, Observation]


class _Idling(TypedDict, total=False):
    """Members of Progress."""

    training_seconds: float
    idle: Idle
    waiting: Waiting


@dataclass(frozen=True)
class DoctorInputs:
    """Asks the doctor about a job. `data`: the data directory."""

    store: Store
    data: Path

    def findings(
        self, job: TrainingJob, report: CompilerReport, now_ms: int, end: End | None = None
    ) -> tuple[KeptFinding, ...]:
        """Returns the findings, JSON-ready. `end` is None while the job runs, and for a job that ended long ago."""
        setup = setup_of(job)
        sources = self._sources(job)
        progress = self._progress(job, report, now_ms, end)
        case = Case(report, sources, setup, progress, self._baseline(job, setup, sources))
        return tuple(finding.to_json() for finding in diagnose(case))

    def _sources(self, job: TrainingJob) -> Sources:
        """Returns the scripts. Places are looked for in those that ran, by the record of the first host's processes."""
        host = JobDirectories.of(self.data, job).host(job.hosts[0])
        ran = [file for note in ran_notes_of(host.opt_ml) for file in note.files]
        sources = read_sources(host.opt_ml, SOURCES, ran)
        return sources if ran else sources.reached(_plain(job.spec.hyperparameters.get(PROGRAM, "")))

    def _progress(self, job: TrainingJob, report: CompilerReport, now_ms: int, end: End | None) -> Progress:
        hosts: Mapping[str, Observation] = end.hosts if end else {}
        odd = self.store.points.not_finite(job.id)
        directories = JobDirectories.of(self.data, job)
        first = verdict.first_failed(hosts, {host: end_notes(directories.host(host).failure_file) for host in hosts})
        lines, last_ms = last_lines(self.store, job, first or job.hosts[0])
        idling = self._idle(job, report, _last_sign(report, last_ms), now_ms)
        if end is None and job.secondary is SecondaryStatus.TRAINING:
            under_way = _under_way(report, now_ms, lines, last_ms)
            return replace(under_way, not_finite=odd, **idling)
        return Progress(
            (end.verdict.status if end else job.status).value,
            out_of_memory=any(host.out_of_memory for host in hosts.values()),
            exit_code=hosts[first].exit_code if first else None,
            last_lines=lines,
            reason=(end.verdict.failure_reason if end else job.failure_reason) or "",
            cause=end.verdict.cause if end else verdict.cause_in(job.transitions[-1].message),
            timed_out=job.stop_cause is StopCause.MAX_RUNTIME,
            saved=any(_has_entries(directories.host(host).model) for host in job.hosts) if end else None,
            not_finite=odd,
            unmatched=tuple(self._unmatched(job, {one.name for one in odd})),
            **idling,
        )

    def _training(self, job: TrainingJob, now_ms: int) -> Window | None:
        """Returns this attempt's training so far. None if it has not begun."""
        status = next((one for one in reversed(job.transitions) if one.status is SecondaryStatus.TRAINING), None)
        return None if status is None else Window(status.start_ms, status.end_ms or now_ms)

    def _idle(self, job: TrainingJob, report: CompilerReport, last_ms: int, now_ms: int) -> _Idling:
        training, directories = self._training(job, now_ms), JobDirectories.of(self.data, job)
        if training is None:
            return _Idling()
        notes = [note for host in job.hosts for note in idle_notes_of(directories.host(host).opt_ml, host)]
        return _Idling(
            training_seconds=max(0, training.ms) / 1000,
            idle=idle_time.longest(self.store, job, training, report.workers, notes),
            waiting=idle_time.waiting(notes, Window(last_ms, now_ms)),
        )

    def _unmatched(self, job: TrainingJob, odd: AbstractSet[str]) -> Iterator[Unmatched]:
        """Yields the metric definitions without a value. `odd`: those with values that are not finite."""
        missing = [one for one in job.spec.metric_definitions if one.name not in odd]
        known = set(self.store.logs.metric_names(job.id)) if missing else set()
        missing = [one for one in missing if one.name not in known]
        if not missing:
            return
        streams = self.store.logs.streams(job.key.account, job.key.region, f"{job.key.name}/", kind=job.key.kind)
        total = sum(stream.events for stream in streams if stream.job_id == job.id)
        lines, _ = last_lines(self.store, job, job.hosts[0], NEAR_LINES)
        budget = Budget()
        yield from (unmatched(one.name, one.regex, total, lines, budget) for one in missing)

    def _baseline(self, job: TrainingJob, setup: Setup, sources: Sources) -> Baseline | None:
        """Returns the newest completed native job with the same scripts and hyperparameters, except for `_VARIED`."""
        if not setup.compiled or not sources:
            return None
        query = JobQuery(
            job.key.account, job.key.region, status=JobStatus.COMPLETED, ascending=False, limit=RECENT_JOBS
        )
        for other in map(as_training, self.store.page(query).jobs):
            theirs = setup_of(other)
            if theirs.compiled or other.id == job.id or _compared(setup) != _compared(theirs):
                continue
            if self._sources(other).same_as(sources) and (report := compile_reports.current(self.data, other)):
                return Baseline(other.key.name, report.workers)
        return None


def last_lines(store: Store, job: Job, host: str, most: int = LAST_LINES) -> tuple[list[str], int]:
    """Returns the last lines of a host in this attempt, and when any host printed last (ms since the epoch)."""
    streams = store.logs.streams(job.key.account, job.key.region, f"{job.key.name}/", kind=job.key.kind)
    own = [stream for stream in streams if stream.job_id == job.id]
    last_ms = max((stream.last_ms or stream.created_ms for stream in own), default=0)
    newest = max((stream for stream in own if stream.host == host), key=lambda one: one.created_ms, default=None)
    if newest is None:
        return [], last_ms
    events = store.logs.events(newest, limit=most, newest_first=True)
    return [event.text for event in reversed(events)], last_ms


def _has_entries(directory: Path) -> bool:
    """True if a directory that the container could write has any entry. A link is not followed."""
    try:
        with (
            nofollow.directory(directory.parent, directory.name, listing=True) as opened,
            os.scandir(opened) as entries,
        ):
            return next(entries, None) is not None
    except OSError:
        return False


def _compared(setup: Setup) -> dict[str, str]:
    given = setup.hyperparameters
    same = {name: value for name, value in given.items() if not any(part in name.lower() for part in _VARIED)}
    return same | {PROGRAM: given.get(PROGRAM, "")}


def setup_of(job: TrainingJob) -> Setup:
    request = job.request
    given = {name: _plain(value) for name, value in job.spec.hyperparameters.items()}
    profiler = request.get("ProfilerConfig") or {}
    return Setup(
        instances=tuple((group.instance_type, len(group.hosts)) for group in job.spec.instance_groups),
        hyperparameters=given,
        compiled=asks_for_compiler(job.spec),
        debug=asks_for_debug_mode(job.spec),
        compiler=chosen_compiler(job.spec),
        debugger=bool(request.get("DebugHookConfig")),
        profiler=bool(profiler) and not profiler.get("DisableProfiler"),
        channels=tuple(channel.name for channel in job.spec.channels),
        max_runtime_seconds=job.spec.max_runtime_seconds,
        isolated=job.spec.network_isolation,
    )


def _plain(value: str) -> str:
    """Removes the quotes of JSON: the SDK sends `"train.py"` with them."""
    try:
        decoded = json.loads(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, str) else value


def _last_sign(report: CompilerReport, last_ms: int) -> int:
    """Returns when a host printed last, or a worker ended a step."""
    return max([last_ms, *(worker.last_step_ms for worker in report.workers)])


def _under_way(report: CompilerReport, now_ms: int, lines: list[str], last_ms: int) -> Progress:
    """Returns the progress of a job that trains. `last_ms`: when it printed last."""
    running = [worker for worker in report.workers if not worker.finished]
    last_ms = max([last_ms, *(worker.last_step_ms for worker in running)])
    since = max((worker.compiling_since_ms for worker in running), default=0)
    return Progress(
        "InProgress",
        silent_seconds=max(0, now_ms - last_ms) / 1000 if last_ms else None,
        compiling_seconds=max(0, now_ms - since) / 1000 if since else 0.0,
        last_lines=lines,
    )
