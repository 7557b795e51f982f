"""Wakes threads of this process that wait for a change."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Counts changes; `wait` ends with the next one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._under_way = 0
        #: Set by `close`.
        self.over = False

    @property
    def count(self) -> int:
        return self._count

    @property
    def settled(self) -> int | None:
        """Returns the count, or None while a change may be visible already that is not counted yet."""
        with self._changed:
            return None if self._under_way else self._count

    def note(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Counts a change, or an attempt at one, when the block ends."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._count += 1
                self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> int:
        """Waits until the count differs from `seen`, `seconds` are over, or `close` is called. Returns the count."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or self._count != seen, seconds)
            return self._count

    def close(self) -> None:
        """Ends all waits, now and later."""
        with self._changed:
            self.over = True
            self._changed.notify_all()
