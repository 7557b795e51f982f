"""Ends hosts that no job of this data directory knows, and hosts whose data directory is gone."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.functions import owner_of
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.store.jobs import Store

log = logging.getLogger(__name__)


def end_orphans(
    store: Store,
    runtimes: Sequence[Runtime],
    data: Path,
    is_waited_for: Callable[[str], bool] = lambda _: False,
    *,
    dry_run: bool = False,
) -> tuple[str, ...]:
    """Ends orphans and returns one text for each. A dry run only finds them. The caller must own the data directory.

    `is_waited_for`: True for a function that a request waits for.

    A host with this directory's id but without a job was left by a job that was reset, deleted or lost with a database.
    """
    found: list[str] = []
    for runtime in runtimes:
        try:
            # Hosts first, then jobs: a job created meanwhile is in the store before it has hosts.
            there = runtime.jobs()
            known = {job.launch_id for job in store.unfinished()}
            executions = {record.id for record in store.orchestrations.unfinished()}
            known |= {one for one in there if owner_of(one) in executions or is_waited_for(one)}
            for orphan in sorted(there - known):
                found.append(f"hosts of {orphan}, a job that is not known here")
                if not dry_run:
                    runtime.reap(orphan)
            found += runtime.end_lost(dry_run=dry_run)
        except (RuntimeUnavailable, StoreUnavailable) as error:
            log.warning("hosts without a job could not be looked for: %s", error)
    return (*found, *_end_processes(store, data, dry_run=dry_run))


def _end_processes(store: Store, data: Path, *, dry_run: bool) -> list[str]:
    """Ends lost processes of this machine: the process runtime's shims, and the Pipe feeders of every runtime."""
    # It knows those programs by their modules. A server that starts is ready before it looks for them.
    from sagelet_engine.runtimes.lost_hosts import end_process, lost_processes

    try:
        lost = lost_processes(data, lambda: {job_id for _, _, job_id in store.job_places()})
    except StoreUnavailable as error:
        log.warning("processes without a job could not be looked for: %s", error)
        return []
    for one in () if dry_run else lost:
        end_process(one)
    return [str(one) for one in lost]
