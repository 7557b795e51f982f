"""The doctor's findings about a processing job: what they are made of, and the file that keeps them.

The exit code and the outputs are known once all hosts are down. So the findings of that moment are kept, in the
directory that a training job has for its compile report.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from sagelet_engine.base import json_files, nofollow
from sagelet_engine.data import processing
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.doctor.case import Case, Place, Processing, Progress, Setup
from sagelet_engine.doctor.diagnosis import diagnose
from sagelet_engine.doctor.finding import Severity
from sagelet_engine.doctor.reading import read_sources
from sagelet_engine.doctor.rules.script_failures import ENDED
from sagelet_engine.doctor.sources import Sources
from sagelet_engine.model import verdict
from sagelet_engine.model.job import StopCause
from sagelet_engine.model.processing import ProcessingInput, ProcessingJob, ProcessingOutput
from sagelet_engine.model.runtime import Observation
from sagelet_engine.reports.doctor_inputs import End, last_lines
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.report import KeptFinding

FILE = "findings.json"
#: The most files of an input or an output that are looked at.
MOST_FILES = 200
_CODE = re.compile(r", exit code: (\d{1,9})$")
#: The most directories in which files are looked for.
MOST_DIRECTORIES = 2000
#: Below /opt/ml: what sagelet writes there, and the message.
_OWN = ("config", "sagelet", "output/message")
#: Names of the inputs by which the SDK's processors bring scripts.
_SCRIPTS = ("code", "entrypoint")


@dataclass(frozen=True)
class ProcessingDoctor:
    """Asks the doctor about a processing job. `data`: the data directory."""

    store: Store
    data: Path

    def findings(self, job: ProcessingJob, end: End | None = None) -> tuple[KeptFinding, ...]:
        """Returns the findings, JSON-ready. `end` is None while the job runs, and for one that no host ran."""
        setup = Setup(
            compiled=False, max_runtime_seconds=job.spec.max_runtime_seconds, isolated=job.spec.network_isolation
        )
        case = Case(
            sources=self._sources(job),
            setup=setup,
            progress=self._progress(job, end),
            processing=self._processing(job, down=end is not None),
        )
        return tuple(finding.to_json() for finding in diagnose(case))

    def _sources(self, job: ProcessingJob) -> Sources:
        host = JobDirectories.of(self.data, job).host(job.hosts[0])
        command = (*job.spec.entrypoint, *job.spec.arguments)
        brings = [
            one
            for one in job.spec.inputs
            if one.name in _SCRIPTS or any(_place(one, ()).holds(word) for word in command)
        ]
        return read_sources(host.opt_ml, [str(one.inner) for one in brings])

    def _progress(self, job: ProcessingJob, end: End | None) -> Progress:
        hosts: Mapping[str, Observation] = end.hosts if end else {}
        first = verdict.first_failed(hosts, dict.fromkeys(hosts, verdict.NO_NOTES))
        reason = (end.verdict.failure_reason if end else job.failure_reason) or ""
        told = _CODE.search(reason)
        return Progress(
            (end.verdict.status if end else job.status).value,
            out_of_memory=any(host.out_of_memory for host in hosts.values()),
            exit_code=hosts[first].exit_code if first else int(told[1]) if told else None,
            last_lines=last_lines(self.store, job, first or job.hosts[0])[0],
            reason=reason,
            cause=end.verdict.cause if end else verdict.cause_in(job.transitions[-1].message),
            timed_out=job.stop_cause is StopCause.MAX_RUNTIME,
        )

    def _processing(self, job: ProcessingJob, *, down: bool) -> Processing:
        directories = JobDirectories.of(self.data, job)
        roots = [directories.host(name).opt_ml for name in job.hosts]
        inputs = tuple(_place(one, roots) for one in job.spec.inputs)
        outputs = tuple(_place(one, roots) for one in job.spec.outputs)
        known = {*_OWN, *(str(one.inner) for one in job.spec.inputs), *(str(one.inner) for one in job.spec.outputs)}
        return Processing(
            command=(*job.spec.entrypoint, *job.spec.arguments),
            inputs=inputs,
            outputs=outputs,
            elsewhere=_files(roots, ".", known) if down else (),
            down=down,
            message=processing.exit_message(job, directories) or "",
        )


def _place(one: ProcessingInput | ProcessingOutput, roots: Sequence[Path]) -> Place:
    return Place(one.name, str(PurePosixPath(one.local_path)), _files(roots, str(one.inner)))


def _files(roots: Sequence[Path], inner: str, without: Set[str] = frozenset()) -> tuple[str, ...]:
    """Returns files below a directory of /opt/ml of any host, as paths in the container, in order."""
    paths = (f"/opt/ml/{path}" for root in roots for path in _walk(root, inner, without))
    return tuple(sorted(set(islice(paths, MOST_FILES))))


def _walk(root: Path, inner: str, without: Set[str]) -> Iterator[str]:
    """Yields ordinary files by their path below /opt/ml. No link is followed: the container may have put it there."""
    with suppress(OSError), nofollow.directory(root, inner, listing=True) as opened:
        for directory, names, files, at in islice(os.fwalk(".", dir_fd=opened), MOST_DIRECTORIES):
            parent = os.path.normpath(os.path.join(inner, directory))
            names[:] = sorted(name for name in names if os.path.normpath(os.path.join(parent, name)) not in without)
            for name in sorted(files):
                path = os.path.normpath(os.path.join(parent, name))
                if path not in without and stat.S_ISREG(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                    yield path


def keep(directories: JobDirectories, findings: tuple[KeptFinding, ...], status: str) -> None:
    """Keeps the findings of a job whose hosts are down. `status`: the job's, which they explain. May be repeated."""
    directories.report.mkdir(parents=True, exist_ok=True)
    json_files.write_json(directories.report / FILE, {"status": status, "findings": list(findings)})


def kept(directories: JobDirectories) -> tuple[str, tuple[KeptFinding, ...]] | None:
    """Returns the status and the findings that were kept, or None if no host of the job has ended."""
    saved = json_files.read_json(directories.report / FILE)
    return None if saved is None else (saved["status"], tuple(saved["findings"]))


def current(store: Store, data: Path, job: ProcessingJob) -> tuple[KeptFinding, ...]:
    """Returns the findings as of now. Those that were kept count unless the job ended otherwise: by its uploads."""
    saved = kept(JobDirectories.of(data, job))
    if saved is not None and (not job.terminal or saved[0] == job.status.value):
        return saved[1]
    return ProcessingDoctor(store, data).findings(job)


def explanation(directories: JobDirectories) -> str:
    """Returns what happened to a failed job, for FailureReason. Empty if the doctor knows the exit code only."""
    saved = kept(directories)
    errors = [one for one in saved[1] if one["severity"] == Severity.ERROR.value] if saved else []
    return errors[0]["seen"] if errors and errors[0]["rule"] != ENDED.name else ""
