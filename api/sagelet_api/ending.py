"""Waits for the end of a foreground server."""

import signal
from queue import Empty, SimpleQueue


class EndRequests:
    """SIGTERM, SIGINT and other threads ask this process to end, and its main thread waits for that.

    A queue and not an Event: `Event.set` takes a lock, and a signal handler that interrupts `Event.wait` at the wrong
    place would wait for that lock forever. `SimpleQueue.put` is made to be called from there.
    """

    def __init__(self) -> None:
        """Takes over SIGTERM and SIGINT, so only the main thread may make one."""
        self._requests: SimpleQueue[str] = SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.ask(""))

    def ask(self, why: str) -> None:
        """Asks for the end. Any thread may call this, more than once: the first request counts."""
        self._requests.put(why)

    def wait(self, seconds: float | None = None) -> str | None:
        """Waits for the first request. Returns its reason (empty for a signal), or None after `seconds` without one."""
        try:
            return self._requests.get(timeout=seconds)
        except Empty:
            return None
