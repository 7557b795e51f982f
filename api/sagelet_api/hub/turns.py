"""Turns of requests to another host: so many at once, and so many of them for one client.

The less is left, the less a client gets: it takes a turn only while more are free than it holds. So clients that take
all that they may leave turns to those that hold none.
"""

import threading
from collections import Counter


class Turns:
    """`most` turns at once, `each` of them for a client at most. `waiting` requests of a client wait for theirs."""

    def __init__(self, most: int, each: int, waiting: int) -> None:
        self._most, self._each, self._longest = most, each, waiting
        self._changed = threading.Condition()
        self._held: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    def take(self, client: str, timeout_s: float) -> bool:
        """Waits for a turn. False if there was none in that time, or too many of the client's requests wait."""
        with self._changed:
            if self._is_free(client):
                self._held[client] += 1
                return True
            if self._waiting[client] >= self._longest:
                return False
            self._waiting[client] += 1
            try:
                free = self._changed.wait_for(lambda: self._is_free(client), timeout_s)
                if free:
                    self._held[client] += 1
                return free
            finally:
                _take_away(self._waiting, client)

    def give_back(self, client: str) -> None:
        with self._changed:
            _take_away(self._held, client)
            # Who waits longest may have its client's share already: all look.
            self._changed.notify_all()

    def _is_free(self, client: str) -> bool:
        return self._held[client] < min(self._each, self._most - self._held.total())


def _take_away(counts: Counter[str], client: str) -> None:
    """Takes one away. A client without any is forgotten: jobs come and go."""
    counts[client] -= 1
    if not counts[client]:
        del counts[client]
