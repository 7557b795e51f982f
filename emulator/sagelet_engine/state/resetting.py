"""Empties a data directory: all of it, or only its jobs or its objects. Files that are not sagelet's stay."""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.execution.works import WORKS
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.s3.files import clean_disk_full
from sagelet_engine.state import contents
from sagelet_engine.state.change import changing
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.state.writers import without_imports
from sagelet_engine.store.jobs import Store

_log = logging.getLogger(__name__)


def reset_data(data: Path, scope: str, runtimes: Sequence[Runtime]) -> list[Path]:
    """Removes what `scope` (one of contents.SCOPES) names. Running hosts of its jobs are killed first.

    `runtimes`: all that may have started them. Returns where files of others that were in the way are now. Raises
    NoDataDirectory, UnknownSchema, DataDirectoryInUse, RuntimeUnavailable, DirectoryStays, DiskFull.
    """
    contents.check_data_directory(data, damaged=True)
    names = contents.SCOPES[scope]
    lock = lock_directory(data)
    try:
        with clean_disk_full(data), without_imports(data), changing(data) as change:
            if contents.JOBS_DATABASE in names:
                _try_to_end_hosts(data, runtimes)
            return change.commit(names)
    finally:
        lock.close()


def _try_to_end_hosts(data: Path, runtimes: Sequence[Runtime]) -> None:
    """Kills hosts if the database can be read. A damaged one is not an error, because a reset is the remedy for it."""
    try:
        end_hosts(data, runtimes)
    except (StoreUnavailable, sqlite3.DatabaseError) as error:
        _log.warning("hosts of jobs may still run, because nothing says which there are: %s", error)


def end_hosts(data: Path, runtimes: Sequence[Runtime]) -> None:
    """Kills the running hosts of a data directory's jobs. The caller owns the directory, and no engine runs on it."""
    if not (data / contents.JOBS_DATABASE).exists():
        return
    store = Store(data / contents.JOBS_DATABASE)
    try:
        for job in store.unfinished():
            for runtime in runtimes:
                runtime.reap(job.launch_id)
            WORKS[job.key.kind].end_helpers(job, data)
            if job.launched:
                _log.warning("%s was running; its hosts are removed", job.key.name)
    finally:
        store.close()
