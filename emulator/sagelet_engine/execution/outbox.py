"""Tells the status sink every status that a job enters, in order.

The store writes a note of each status in the transaction that enters it, so a crash loses none. A note is dropped only
after the sink has received it, so the last few may be sent twice. Notes that nobody would hear of are dropped unread.
Jobs never wait for the sink.
"""

import logging
import threading

from sagelet_engine.base.errors import is_known
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.model.sinks import StatusSink
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestrations import Orchestrations

log = logging.getLogger(__name__)

#: Notes that one batch reads and drops. After a crash, up to this many are sent twice.
BATCH = 20
#: Seconds after a status in which others come that are announced with it: threads that wake for each slow a job down.
GATHER_S = 0.05
#: Seconds until the next try after the store was unavailable.
RETRY_SECONDS = 1.0


class Outbox(threading.Thread):
    def __init__(self, store: Store, sink: StatusSink) -> None:
        super().__init__(name="outbox", daemon=True)
        self._store = store
        self._sink = sink
        self._closing = threading.Event()

    def close(self) -> None:
        self._closing.set()
        self._store.status_noted.set()

    def run(self) -> None:
        while not self._closing.is_set():
            self._store.status_noted.clear()
            try:
                more = self._announce_batch()
            except Exception as error:
                log.warning("status changes are announced later: %s", error, exc_info=not is_known(error))
                self._closing.wait(RETRY_SECONDS)
                continue
            if not more:
                self._store.status_noted.wait()
                self._closing.wait(GATHER_S)

    def _announce_batch(self) -> bool:
        """Announces the next notes. True if there may be more that came before."""
        more = False
        for kept in (self._store, self._store.orchestrations):
            # Read first: what is noted later may be heard by somebody who begins to listen now.
            last = kept.last_noted_status()
            if last and not self._sink.is_heard:
                self._drop(kept, last)
            elif last:
                more = self._announce_notes(kept) or more
        return more

    def _announce_notes(self, kept: Store | Orchestrations) -> bool:
        notes = kept.noted_statuses(BATCH)
        last = 0
        for number, job in notes:
            if self._closing.is_set():
                break
            try:
                self._sink.announce(job)
            except Exception:
                # A sink must not raise. If it does, its note is skipped, since it would hold up all later ones.
                log.exception("%s: its status %s was not announced", job.key.name, job.status.value)
            last = number
        if last:
            self._drop(kept, last)
        return len(notes) == BATCH

    def _drop(self, kept: Store | Orchestrations, last: int) -> None:
        failpoint(Failpoint.AFTER_ANNOUNCEMENT)
        kept.drop_noted_statuses(last)
