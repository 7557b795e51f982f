"""Checks a whole data directory. It deletes nothing of a user's: files that are in the way are moved aside."""

import json
import re
from pathlib import Path

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.state import contents
from sagelet_engine.state.checking.databases import State, check_database
from sagelet_engine.state.checking.hub import check_hub
from sagelet_engine.state.checking.jobs import check_jobs, set_all_aside
from sagelet_engine.state.checking.objects import Objects, Owner
from sagelet_engine.state.checking.report import Aside, Report
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.state.writers import without_imports
from sagelet_engine.store.jobs import Store

#: The SDK's default buckets name their account and region.
_DEFAULT_BUCKET = re.compile(r"sagemaker-([a-z0-9-]+)-(\d{12})")
_URI = re.compile(r's3://([^/"]+)')


def check_data(data: Path, account: str, region: str, *, repair: bool = False) -> Report:
    """Checks a data directory that no server uses, and repairs it with `repair`.

    `account`, `region`: for buckets whose owner nothing else tells. Raises NoDataDirectory, UnknownSchema,
    DataDirectoryInUse, SettingsError.
    """
    contents.check_is_data_directory(data)
    report, aside = Report(repair), Aside(data)
    lock = lock_directory(data)
    try:
        with without_imports(data):
            _check(data, report, aside, account, region)
    except OSError as error:
        raise SettingsError(f"{error.filename or data}: {error.strerror or error}") from error
    finally:
        lock.close()
    return report


def _check(data: Path, report: Report, aside: Aside, account: str, region: str) -> None:
    jobs = check_database(data, contents.JOBS_DATABASE, report, aside)
    objects = check_database(data, contents.CATALOG, report, aside)
    if jobs.readable:
        check_jobs(data, report, aside)
    elif jobs is State.LOST and report.repair:
        set_all_aside(data, report, aside)
    if objects.readable or (objects is State.LOST and report.repair):
        lost = objects is not State.SOUND
        Objects(data, report, aside, _owner(data, account, region), lost=lost).check()
    check_hub(data, report, aside)


def _owner(data: Path, account: str, region: str) -> Owner:
    known: dict[str, tuple[str, str]] = {}

    def owner(bucket: str) -> tuple[str, str]:
        if not known:
            known.update({"": ("", "")} | _named_by_jobs(data))
        if bucket in known:
            return known[bucket]
        by_name = _DEFAULT_BUCKET.fullmatch(bucket)
        return (by_name[2], by_name[1]) if by_name else (account, region)

    return owner


def _named_by_jobs(data: Path) -> dict[str, tuple[str, str]]:
    """Returns account and region of buckets that jobs name. A job writes to buckets of its own account."""
    if not (data / contents.JOBS_DATABASE).exists():
        return {}
    try:
        store = Store(data / contents.JOBS_DATABASE)
    except StoreUnavailable:
        return {}
    try:
        places = ("OutputDataConfig", "ProcessingOutputConfig")
        requests = [(job.key, json.dumps([job.request.get(name) for name in places])) for job in store.every_job()]
    finally:
        store.close()
    return {bucket: (key.account, key.region) for key, text in requests for bucket in _URI.findall(text)}
