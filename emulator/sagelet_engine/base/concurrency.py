"""Limits how many threads compute at once: under one interpreter lock, many get less done than a few.

SQLite releases the lock at every row. Each time, all threads that wait for it come first.

A place is a lease. When others wait and LEASE_SECONDS are over, the place is theirs, whatever its holder does: it may
wait for the disk, for a lock or for a tree of files. So no code can keep others from computing, and none has to say
that it waits. `away` only gives a place back sooner. Loops over what a client has sent call `pause`, so that a
long computation goes on while nobody else computes.
"""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue

from sagelet_engine.base.errors import SageletError

#: How many of a server's requests compute at once.
COMPUTING_AT_ONCE = 2
#: How long a place is its holder's while others wait. Most requests take a tenth of it.
LEASE_SECONDS = 0.02
#: How long a thread computes until `pause` lets others go first, and how long it then waits for them at most.
SLICE_SECONDS, PATIENCE_SECONDS = 0.001, 0.02
#: Requests of one account that have outlived their places, at most. Its other requests wait; those of others do not.
MOST_OVERDUE = 8
#: How long a request waits until it is refused.
MOST_WAITING_SECONDS = 20.0


class TooBusy(SageletError):
    """The other requests of the account take all that it may have, for MOST_WAITING_SECONDS."""


class _Turn:
    """One thread between `taken` and its end."""

    __slots__ = ("account", "began", "is_overdue", "limit", "woken")

    def __init__(self, limit: "ConcurrencyLimit", account: str) -> None:
        self.limit = limit
        self.account = account
        #: When it got its place, by the monotonic clock. None: it has none.
        self.began: float | None = None
        self.is_overdue = False
        #: Gets an item when the turn gets a place or has to look at the clock. SimpleQueue is written in C, and
        #: threading.Semaphore in Python.
        self.woken: SimpleQueue[None] = SimpleQueue()

    def sleep(self, seconds: float) -> None:
        """Sleeps until it is woken, at most so long."""
        with suppress(Empty):
            self.woken.get(timeout=max(0.0, seconds))


class _Here(threading.local):
    turn: _Turn | None = None


_here = _Here()


class ConcurrencyLimit:
    """Lets `number` threads compute at once. Accounts take turns, and so do the requests of each."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._guard = threading.Lock()
        #: Turns with a place, the oldest lease first.
        self._holders: dict[_Turn, None] = {}
        #: Turns without one by account, the next account first.
        self._waiting: OrderedDict[str, deque[_Turn]] = OrderedDict()
        #: Turns that wait until nobody else computes.
        self._pausing: deque[_Turn] = deque()
        self._overdue: Counter[str] = Counter()
        #: The one waiting turn that looks at the clock. The others sleep.
        self._keeper: _Turn | None = None

    @contextmanager
    def taken(self, account: str = "") -> Iterator[None]:
        """Takes one of the places while the block lasts, at most for a lease. Raises TooBusy."""
        turn, before = _Turn(self, account), _here.turn
        try:
            if not self._enter(turn, MOST_WAITING_SECONDS):
                raise TooBusy(f"Requests of account {account} take all that it may have")
            _here.turn = turn
            yield
        finally:
            _here.turn = before
            with self._guard:
                self._leave(turn)
                if turn.is_overdue:
                    self._overdue -= Counter([account])
                    self._give()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Gives the thread's place, if it has one, to others while the block waits for the disk."""
        turn = _here.turn
        if turn is None or turn.limit is not self:
            yield
            return
        with self._guard:
            self._leave(turn)
        try:
            yield
        finally:
            # It has begun, so it goes on in any case.
            self._enter(turn, PATIENCE_SECONDS)

    def step_aside(self, turn: _Turn) -> None:
        """Lets all others compute first. Goes on after PATIENCE_SECONDS at the latest."""
        with self._guard:
            self._leave(turn)
            self._pausing.append(turn)
            self._give()
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            while turn.began is None and (left := deadline - time.monotonic()) > 0:
                turn.sleep(left)
        finally:
            with self._guard:
                if turn.began is None:
                    self._pausing.remove(turn)
                    self._hold(turn)

    def _enter(self, turn: _Turn, patience: float) -> bool:
        """Waits for a place. Returns False if there was none for so many seconds."""
        with self._guard:
            if not self._waiting and len(self._holders) < self._number and not self._overdue:
                self._hold(turn)
                return True
            self._waiting.setdefault(turn.account, deque()).append(turn)
            self._keeper = turn
        deadline = time.monotonic() + patience
        try:
            while not self._has_place(turn) and (left := deadline - time.monotonic()) > 0:
                turn.sleep(min(left, LEASE_SECONDS) if self._keeper is turn else left)
        finally:
            has_place = turn.began is not None or self._give_up(turn)
        return has_place

    def _has_place(self, turn: _Turn) -> bool:
        if turn.began is not None:
            return True
        with self._guard:
            self._give()
            return turn.began is not None

    def _give_up(self, turn: _Turn) -> bool:
        """Stops waiting. Returns True if it has a place."""
        with self._guard:
            if turn.began is None:
                self._drop(turn)
                self._choose_keeper(turn)
            return turn.began is not None

    # --- with the guard held --------------------------------------------------------------------------------------

    def _leave(self, turn: _Turn) -> None:
        """Gives the place back, if the turn still has it."""
        turn.began = None
        self._holders.pop(turn, None)
        self._give()

    def _give(self) -> None:
        """Gives free places, and those whose lease is over, to those who wait."""
        if not self._waiting and not self._pausing:
            return
        self._end_leases()
        while len(self._holders) < self._number and (turn := self._next()) is not None:
            self._hold(turn)
            self._choose_keeper(turn)
        # Who waits now may not have a place: its account has too many requests that are overdue.
        if self._pausing and not self._holders:
            self._hold(self._pausing.popleft())

    def _end_leases(self) -> None:
        oldest = time.monotonic() - LEASE_SECONDS
        for turn in [turn for turn in self._holders if turn.began is not None and turn.began < oldest]:
            del self._holders[turn]
            if not turn.is_overdue:
                turn.is_overdue = True
                self._overdue[turn.account] += 1

    def _next(self) -> _Turn | None:
        """Takes the next waiting turn out of the line. The account then comes last."""
        for account in [*self._waiting]:
            if self._begun(account) < MOST_OVERDUE or self._waiting[account][0].is_overdue:
                turn = self._waiting[account][0]
                self._waiting.move_to_end(account)
                self._drop(turn)
                return turn
        return None

    def _begun(self, account: str) -> int:
        """Returns how many requests of the account are overdue, or will be if they wait."""
        return self._overdue[account] + sum(turn.account == account and not turn.is_overdue for turn in self._holders)

    def _drop(self, turn: _Turn) -> None:
        line = self._waiting[turn.account]
        line.remove(turn)
        if not line:
            del self._waiting[turn.account]

    def _hold(self, turn: _Turn) -> None:
        turn.began = time.monotonic()
        self._holders[turn] = None
        turn.woken.put(None)

    def _choose_keeper(self, before: _Turn) -> None:
        if self._keeper is before:
            self._keeper = next(iter(self._waiting.values()))[0] if self._waiting else None
            if self._keeper is not None:
                self._keeper.woken.put(None)


def pause() -> None:
    """Lets others compute, if this thread has computed for SLICE_SECONDS. It does nothing outside of a limit."""
    turn = _here.turn
    if turn is not None and time.monotonic() - (turn.began or 0.0) > SLICE_SECONDS:
        turn.limit.step_aside(turn)
