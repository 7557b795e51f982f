"""Checks rows of jobs against their directories."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.orchestration import OrchestrationKind
from sagelet_engine.state import contents
from sagelet_engine.state.checking.report import Aside, Report
from sagelet_engine.store.jobs import Store

_NAMES = {
    OrchestrationKind.TUNING.value: "tuning job",
    OrchestrationKind.PIPELINE_EXECUTION.value: "execution of a pipeline",
}


def check_jobs(data: Path, report: Report, aside: Aside) -> None:
    """Checks the jobs of a readable database. Raises StoreUnavailable, OSError."""
    store = Store(data / contents.JOBS_DATABASE)
    try:
        _check_records(store, report, aside)
        known = {*store.job_places()}
        report.jobs = len(known)
        _check_directories(data, known, report, aside)
        _check_hosts(data, store, report)
    finally:
        store.close()


def set_all_aside(data: Path, report: Report, aside: Aside) -> None:
    """Moves directories of jobs aside if their database is lost, because a job cannot be made from its directory."""
    _check_directories(data, set(), report, aside)


class _Broken(NamedTuple):
    """A record that cannot be read."""

    #: As the report names it: `job 0a1b`.
    name: str
    why: str
    #: What is forgotten with it: `the job`.
    forgotten: str
    #: What is not: `; its jobs stay`.
    stays: str
    drop: Callable[[], None]


def _broken(store: Store) -> Iterator[_Broken]:
    for kind, record_id, why in store.orchestrations.broken_records():
        noun, drop = _NAMES.get(kind, kind), partial(store.orchestrations.drop_record, record_id)
        yield _Broken(f"{noun} {record_id}", why, f"the {noun}", "; its jobs stay", drop)
    for arn, why in store.pipelines.broken_records():
        yield _Broken(arn, why, "the pipeline", "; its executions stay", partial(store.pipelines.drop_record, arn))
    for arn, why in store.registry.broken_records():
        yield _Broken(arn, why, "it", "; what is in S3 stays", partial(store.registry.drop_record, arn))
    for job_id, why in store.broken_records():
        yield _Broken(f"job {job_id}", why, "the job", "", partial(store.drop_record, job_id))


def _check_records(store: Store, report: Report, aside: Aside) -> None:
    broken = [*_broken(store)]
    kept = aside.leave_copy(contents.JOBS_DATABASE) if report.repair and broken else ""
    for record in broken:
        if report.repair:
            record.drop()
        report.add(
            "job", f"the record of {record.name} cannot be read: {record.why}",
            f"`sagelet check --repair` forgets {record.forgotten}{record.stays}",
            mended=kept and f"{record.forgotten} is forgotten; the database {kept}",
        )  # fmt: skip


def _check_directories(data: Path, known: set[tuple[str, str, str]], report: Report, aside: Aside) -> None:
    for directory in sorted((data / "jobs").glob("*/*/*")):
        account, region, job_id = directory.parts[-3:]
        if (account, region, job_id) not in known:
            name = directory.relative_to(data).as_posix()
            report.add(
                "job", f"{name} has files of a job that is not in {contents.JOBS_DATABASE}",
                "`sagelet check --repair` moves them aside",
                mended=aside.move(name) if report.repair else "",
            )  # fmt: skip


def _check_hosts(data: Path, store: Store, report: Report) -> None:
    for job in store.unfinished():
        directories = JobDirectories.of(data, job)
        gone = [name for name in job.hosts if job.launched and not directories.host(name).run.is_dir()]
        if gone:
            report.add(
                "job", f"{job.key.name} is under way, and the files of {', '.join(gone)} are gone",
                "it ends as failed when a server starts: submit it again",
            )  # fmt: skip
