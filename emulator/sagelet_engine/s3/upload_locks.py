"""Locks for what threads may do to a multipart upload at the same time.

Bytes of parts come from many threads at once, each into a slot that it has claimed (`slot`). Any number of threads may
record parts at the same time (`recording`). One thread alone completes or aborts, and no thread records a part
meanwhile (`ending`). It does not wait for bytes on their way, because their client may have stalled.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _State:
    #: Threads that hold one of the locks, or wait for one.
    users: int = 0
    recording: int = 0
    #: Threads that end the upload, or wait to do so. They go before threads that record.
    ends: int = 0
    ending: bool = False
    #: Part numbers whose slots are being written.
    slots: set[int] = field(default_factory=set)


class UploadLocks:
    """Locks of the uploads of one store, in one process. Transactions of the catalogue keep other processes out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._states: dict[str, _State] = {}

    @contextmanager
    def slot(self, upload_id: str, number: int) -> Iterator[bool]:
        """Claims the part's slot for this thread while the block lasts. Gives False if another thread has it."""
        with self._used(upload_id) as state:
            with self._changed:
                free = not state.ends and number not in state.slots
                if free:
                    state.slots.add(number)
            try:
                yield free
            finally:
                if free:
                    with self._changed:
                        state.slots.discard(number)

    @contextmanager
    def recording(self, upload_id: str) -> Iterator[None]:
        with self._used(upload_id) as state:
            with self._changed:
                self._changed.wait_for(lambda: not state.ends)
                state.recording += 1
            try:
                yield
            finally:
                with self._changed:
                    state.recording -= 1
                    self._changed.notify_all()

    @contextmanager
    def ending(self, upload_id: str) -> Iterator[bool]:
        """Keeps slots from being claimed while the block lasts. Gives True if no slot is being written."""
        with self._used(upload_id) as state:
            with self._changed:
                state.ends += 1
            try:
                with self._changed:
                    self._changed.wait_for(lambda: not state.ending and not state.recording)
                    state.ending = True
                try:
                    yield not state.slots
                finally:
                    with self._changed:
                        state.ending = False
            finally:
                with self._changed:
                    state.ends -= 1
                    self._changed.notify_all()

    @contextmanager
    def _used(self, upload_id: str) -> Iterator[_State]:
        with self._changed:
            state = self._states.setdefault(upload_id, _State())
            state.users += 1
        try:
            yield state
        finally:
            with self._changed:
                state.users -= 1
                if not state.users:
                    del self._states[upload_id]
