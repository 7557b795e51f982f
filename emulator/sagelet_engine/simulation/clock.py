"""A clock that advances only when everybody waits for it, and then at once."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(eq=False)
class _Sleeper:
    #: ms since the epoch, or infinite if it waits to be roused.
    until_ms: float
    #: The worker that works again when it wakes, or None.
    worker: object | None
    #: True for a thread outside of the simulation. A worker that has ended, and sleeps all the same, is none.
    is_outside: bool
    awake: bool = False


class SimulatedClock:
    """A clock that stands still while a worker works. Workers that wait for it sleep until it is turned.

    `pacemaker.py` turns it to the next moment at which something is to happen. Thread-safe.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._changed = threading.Condition()
        self._working: set[object] = set()
        self._sleepers: list[_Sleeper] = []
        self._holds = 0

    def now_ms(self) -> int:
        with self._changed:
            return self._now_ms

    def begin(self, *workers: object) -> None:
        """Notes that workers work from now on. Time waits for them."""
        with self._changed:
            self._working.update(workers)

    def end(self, worker: object) -> None:
        """Notes that a worker works no more. Rouses it if it sleeps. May be repeated."""
        with self._changed:
            self._working.discard(worker)
            for sleeper in [one for one in self._sleepers if one.worker is worker]:
                sleeper.worker = None
                self._rouse(sleeper)

    def sleep(self, seconds: float, worker: object | None = None, unless: Callable[[], bool] = lambda: False) -> None:
        """Returns when so much time has passed, or when `rouse` is called for the worker.

        `unless` says that `rouse` was called already. It is asked under the clock's lock, so it must take no lock.
        """
        with self._changed:
            if unless():
                return
            working = worker if worker in self._working else None
            sleeper = _Sleeper(self._now_ms + seconds * 1000, working, is_outside=worker is None)
            self._working.discard(worker)
            self._sleepers.append(sleeper)
            self._changed.wait_for(lambda: sleeper.awake)

    def rouse(self, worker: object) -> None:
        """Wakes a worker that sleeps."""
        with self._changed:
            for sleeper in [one for one in self._sleepers if one.worker is worker]:
                self._rouse(sleeper)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While held, the clock goes no further than threads outside of the simulation sleep."""
        with self._changed:
            self._holds += 1
        try:
            yield
        finally:
            with self._changed:
                self._holds -= 1

    def next_wake_ms(self) -> float:
        """Returns when the next sleeper is to wake, ms since the epoch, or infinite if none is."""
        with self._changed:
            return min((one.until_ms for one in self._sleepers), default=math.inf)

    @property
    def at_work(self) -> bool:
        with self._changed:
            return bool(self._working)

    def turn_to(self, moment_ms: float) -> bool:
        """Turns the clock, unless a worker works or it is held. Wakes sleepers whose time has come."""
        with self._changed:
            if self._working or moment_ms > self._furthest() or math.isinf(moment_ms):
                return False
            self._now_ms = max(self._now_ms, math.ceil(moment_ms))
            for sleeper in [one for one in self._sleepers if one.until_ms <= self._now_ms]:
                self._rouse(sleeper)
            return True

    def _furthest(self) -> float:
        if not self._holds:
            return math.inf
        return max((one.until_ms for one in self._sleepers if one.is_outside), default=-math.inf)

    def _rouse(self, sleeper: _Sleeper) -> None:
        """Wakes a sleeping thread. It counts as working at once, so time does not advance before it runs."""
        sleeper.awake = True
        self._sleepers.remove(sleeper)
        if sleeper.worker is not None:
            self._working.add(sleeper.worker)
        self._changed.notify_all()
