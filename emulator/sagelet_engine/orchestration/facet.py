"""What the API asks for of every kind of orchestration. A kind adds how one is made."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Generic

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.database import NotFlushed
from sagelet_engine.base.errors import OrchestrationEnded, OrchestrationNotDeletable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.model.listing import JobPage, JobQuery
from sagelet_engine.model.orchestration import C, O, OrchestrationKey, OrchestrationStatus, enter
from sagelet_engine.store.orchestrations import Kept, StaleOrchestration


class Orchestrations(Generic[O, C]):
    """The orchestrations of one kind, of all accounts and regions. Changes are durable when a method returns."""

    def __init__(self, kept: Kept[O, C], clock: Clock, watch: Callable[[str], None]) -> None:
        """`watch` has the orchestrator drive a record from now on."""
        self._kept = kept
        self._clock = clock
        self._watch = watch

    def begin(self, record: O) -> None:
        """Makes a new record durable and begins it. Raises OrchestrationNameInUse."""
        try:
            self._kept.insert(record)
        except NotFlushed:
            # The client gets an error, although the record exists.
            self._watch(record.id)
            raise
        failpoint(Failpoint.AFTER_ORCHESTRATION)
        self._watch(record.id)

    def stop(self, key: OrchestrationKey) -> None:
        """Asks for a stop, also of the children. A second call changes nothing. Raises OrchestrationNotFound,
        OrchestrationEnded.
        """
        while True:
            record = self._kept.get(key)
            if record.terminal:
                raise OrchestrationEnded(record.status.value)
            if record.status is OrchestrationStatus.STOPPING:
                return
            with suppress(StaleOrchestration):
                self._kept.update(enter(record, OrchestrationStatus.STOPPING, self._clock.now_ms()))
                failpoint(Failpoint.AFTER_ORCHESTRATION_STOP)
                return

    def delete(self, key: OrchestrationKey) -> None:
        """Forgets a record. Its children's jobs stay. Raises OrchestrationNotFound, OrchestrationNotDeletable."""
        record = self._kept.get(key)
        if not record.terminal:
            raise OrchestrationNotDeletable(record.status.value)
        self._kept.delete(record)

    def get(self, key: OrchestrationKey) -> O:
        """Raises OrchestrationNotFound."""
        return self._kept.get(key)

    def page(self, query: JobQuery) -> JobPage[O]:
        return self._kept.page(query)

    def counts(self, account: str, region: str, name_contains: str = "") -> dict[str, int]:
        """Returns the number of records by status. `name_contains`: part of the names, compared without case."""
        return self._kept.counts_of(JobQuery(account, region, name_contains=name_contains or None))

    def every(self, account: str, region: str) -> list[O]:
        """Returns all of an account in a region, the oldest first."""
        return self._kept.every(account, region)

    def put_tags(self, key: OrchestrationKey, tags: Mapping[str, str], limit: int) -> None:
        """Adds all tags or none. Raises OrchestrationNotFound, TooManyTags."""
        self._kept.put_tags(self._kept.get(key).id, tags, limit)

    def delete_tags(self, key: OrchestrationKey, keys: Sequence[str]) -> None:
        """Raises OrchestrationNotFound."""
        self._kept.delete_tags(self._kept.get(key).id, keys)
