"""Empties a data directory: all of it, or only its jobs or its objects. What is not sagelet's stays."""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.data.channels.pipe_mode import PipeFeed
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.s3.files import clean_disk_full
from sagelet_engine.state import contents
from sagelet_engine.state.change import changing
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.state.writers import without_imports
from sagelet_engine.store.jobs import Store

_log = logging.getLogger(__name__)


def reset_data(data: Path, scope: str, runtimes: Sequence[Runtime]) -> list[Path]:
    """Removes what `scope` (of contents.SCOPES) names; hosts of its jobs that run still are killed first.

    `runtimes`: all that may have started them. Returns where files are now that are not sagelet's and were in the way.
    Raises NoDataDirectory, NewerSchema, DataDirectoryInUse, RuntimeUnavailable, DirectoryStays,
    DiskFull.
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
    """A reset is what helps against a database that is damaged."""
    try:
        end_hosts(data, runtimes)
    except (StoreUnavailable, sqlite3.DatabaseError) as error:
        _log.warning("hosts of jobs may run still, since nothing says which there are: %s", error)


def end_hosts(data: Path, runtimes: Sequence[Runtime]) -> None:
    """Kills what runs still of a data directory's jobs. For who owns the directory, with no engine on it."""
    if not (data / contents.JOBS_DATABASE).exists():
        return
    store = Store(data / contents.JOBS_DATABASE)
    try:
        for job in store.unfinished():
            for runtime in runtimes:
                runtime.reap(job.launch_id)
            PipeFeed(job, JobDirectories.of(data, job)).end()
            if job.launched:
                _log.warning("%s was under way; its hosts are removed", job.key.name)
    finally:
        store.close()
