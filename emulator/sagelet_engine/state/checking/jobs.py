"""Checks rows of jobs against their directories."""

from pathlib import Path

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


def _check_records(store: Store, report: Report, aside: Aside) -> None:
    broken, orchestrations = store.broken_records(), store.orchestrations.broken_records()
    pipelines, registry = store.pipelines.broken_records(), store.registry.broken_records()
    kept = ""
    if report.repair and (broken or orchestrations or pipelines or registry):
        kept = aside.leave_copy(contents.JOBS_DATABASE)
    for kind, record_id, why in orchestrations:
        if report.repair:
            store.orchestrations.drop_record(record_id)
        what = _NAMES.get(kind, kind)
        report.add(
            "job", f"the record of {what} {record_id} cannot be read: {why}",
            f"`sagelet check --repair` forgets the {what}; its jobs stay",
            mended=kept and f"the {what} is forgotten; the database {kept}",
        )  # fmt: skip
    for arn, why in pipelines:
        if report.repair:
            store.pipelines.drop_record(arn)
        report.add(
            "job", f"the record of {arn} cannot be read: {why}",
            "`sagelet check --repair` forgets the pipeline; its executions stay",
            mended=kept and f"the pipeline is forgotten; the database {kept}",
        )  # fmt: skip
    for arn, why in registry:
        if report.repair:
            store.registry.drop_record(arn)
        report.add(
            "job", f"the record of {arn} cannot be read: {why}",
            "`sagelet check --repair` forgets it; what is in S3 stays",
            mended=kept and f"it is forgotten; the database {kept}",
        )  # fmt: skip
    for job_id, why in broken:
        if report.repair:
            store.drop_record(job_id)
        report.add(
            "job", f"the record of job {job_id} cannot be read: {why}",
            "`sagelet check --repair` forgets the job", mended=kept and f"the job is forgotten; the database {kept}",
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
