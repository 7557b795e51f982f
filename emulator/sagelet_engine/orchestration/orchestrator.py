"""The loop that drives orchestrations, crash-only: load, decide, apply guarded by the version, make the children so.

One thread drives all of them. It looks again at every change of the store, since the end of a child is one, and at the
moments that a kind's work names. Whatever it was doing when the server was killed, the next server repeats.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import OrchestrationNotFound, is_known
from sagelet_engine.model.orchestration import Orchestration, OrchestrationKind
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestrations import StaleOrchestration

log = logging.getLogger(__name__)

#: Real seconds between two looks while the store changes all the time.
SHORTEST_SECONDS = 0.02
#: The same after a look that took long. A look may take seconds, when it runs a function in simulated time.
LONGEST_PAUSE_SECONDS = 0.5
#: The longest real time without a look, because a clock may jump.
LONGEST_SECONDS = 5.0
#: Real seconds until the next try after an error, whatever changes meanwhile.
RETRY_SECONDS = 1.0


Record = TypeVar("Record", bound=Orchestration, contravariant=True)


class Work(Protocol[Record]):
    """What drives the orchestrations of one kind."""

    def step(self, record: Record) -> float | None:
        """Takes all steps that are possible now. Every step may be repeated.

        Returns when it wants to look again although nothing has changed, ms since the epoch, or None. Raises
        StaleOrchestration, StoreUnavailable.
        """
        ...


class Orchestrator(threading.Thread):
    """`start` takes up every unfinished orchestration; `watch` says that there is a new one."""

    def __init__(self, store: Store, clock: Clock, works: Mapping[OrchestrationKind, Callable[[], Work[Any]]]) -> None:
        """`works`: returns the work of each kind, which is made by the first orchestration of the kind."""
        super().__init__(name="orchestrator", daemon=True)
        self._store = store
        self._clock = clock
        self._works = works
        self._closing = threading.Event()
        self._woken = threading.Event()
        self._guard = threading.Lock()
        #: Ids of the orchestrations that may be unfinished.
        self._watched = {record.id for record in store.orchestrations.unfinished()}
        #: Number of the store's changes before the last full look, and when the next look is due without a change.
        self._seen = -1
        self._due_ms: float | None = None
        #: When an orchestration is tried again after an error, by the monotonic clock.
        self._retries: dict[str, float] = {}

    def watch(self, record_id: str) -> None:
        """Drives an orchestration from now on."""
        with self._guard:
            self._watched.add(record_id)
            self._seen = -1
        self._woken.set()

    def settled(self, now_ms: int) -> int | None:
        """Returns the number of changes that every orchestration has heeded. None if a look is due, or if the store
        changes just now: then time that a test turns must not go on.
        """
        count = self._store.changes.settled
        with self._guard:
            if not self._watched:
                return count
            due = self._due_ms is not None and self._due_ms <= now_ms
            behind = self._seen != count
        if due:
            self._store.changes.note()
        return None if due or behind else count

    @property
    def drives_any(self) -> bool:
        """True if there may be an unfinished orchestration."""
        with self._guard:
            return bool(self._watched)

    @property
    def due_ms(self) -> float | None:
        """The next moment at which an orchestration has something to do by itself, ms since the epoch."""
        with self._guard:
            return self._due_ms if self._watched else None

    def close(self) -> None:
        self._closing.set()
        self._woken.set()

    def run(self) -> None:
        while True:
            self._woken.clear()
            # Asked after the event is cleared, so that a close at any moment is seen here or ends the wait.
            if self._closing.is_set():
                return
            with self._guard:
                watched = sorted(self._watched)
            if not watched:
                self._woken.wait()
                continue
            seen, began = self._store.changes.count, time.monotonic()
            due_ms = self._look(watched)
            with self._guard:
                self._due_ms = due_ms
                self._seen = seen if self._watched <= set(watched) else -1
            # Looks take at most half of the time, however many children there are.
            self._closing.wait(min(LONGEST_PAUSE_SECONDS, max(SHORTEST_SECONDS, time.monotonic() - began)))
            left = LONGEST_SECONDS if due_ms is None else (due_ms - self._clock.now_ms()) / 1000
            self._store.changes.wait(seen, min(LONGEST_SECONDS, max(0.0, left)))

    def _look(self, watched: list[str]) -> float | None:
        """Lets each orchestration take its steps. Returns when the next look is due."""
        due: list[float] = []
        for record_id in watched:
            if self._closing.is_set():
                break
            held = self._retries.get(record_id, 0.0) - time.monotonic()
            if held > 0:
                due.append(self._clock.now_ms() + held * 1000)
                continue
            try:
                moment = self._step(record_id)
            except StaleOrchestration:
                # A request changed the record meanwhile, which is a change to look at.
                continue
            except Exception as error:
                log.warning("orchestration %s goes on later: %s", record_id, error, exc_info=not is_known(error))
                self._retries[record_id] = time.monotonic() + RETRY_SECONDS
                moment = self._clock.now_ms() + RETRY_SECONDS * 1000
            if moment is not None:
                due.append(moment)
        return min(due, default=None)

    def _step(self, record_id: str) -> float | None:
        try:
            record = self._store.orchestrations.by_id(record_id)
        except OrchestrationNotFound:
            record = None
        if record is None or record.terminal:
            with self._guard:
                self._watched.discard(record_id)
            self._retries.pop(record_id, None)
            return None
        return self._works[record.key.kind]().step(record)
