"""Server-sent events, with a bound on the threads that they hold.

A stream that waits for news holds one of the server's threads, and one of the six connections that a browser opens to a
server. So only a few wait at the same time, each for a while. Every other one gets its news at once, with the
instruction to ask again. To a browser (EventSource) both are the same.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sagelet_engine.base.changes import Changes
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject

if TYPE_CHECKING:
    from flask import Response

#: Streams that wait at the same time.
SLOTS = 4
#: Seconds that one waits, until the next may have its place.
HOLD = 20.0
#: Seconds between two signs of life, which find out whether the browser is there still.
BEAT = 5.0
#: Seconds between two pieces of news.
GAP = 0.4
#: Milliseconds after which a browser asks again.
RETRY_MS = 2000

#: The name of the present state, and the data to send about it.
Look = Callable[[], tuple[str, JsonObject]]


class Streams:
    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._slots = threading.BoundedSemaphore(SLOTS)

    def answer(self, look: Look) -> "Response":
        """Sends news for the current request. `seen` in its address, or Last-Event-ID: the state that the browser
        knows."""
        from flask import Response, request

        seen = request.headers.get("Last-Event-ID") or request.args.get("seen", "")
        # A refusal must come before the first byte.
        first = self._changes.count
        state = look()
        return Response(self._events(look, first, state, seen), mimetype="text/event-stream")

    def _events(self, look: Look, count: int, state: tuple[str, JsonObject], seen: str) -> Iterator[str]:
        yield f"retry: {RETRY_MS}\n\n"
        if state[0] != seen:
            yield _frame(*state)
        if not self._slots.acquire(blocking=False):
            return
        try:
            yield from self._wait(look, count, state[0])
        finally:
            self._slots.release()

    def _wait(self, look: Look, count: int, seen: str) -> Iterator[str]:
        end = time.monotonic() + HOLD
        while not self._changes.over and (left := end - time.monotonic()) > 0:
            now = self._changes.wait(count, min(BEAT, left))
            if now == count:
                yield ": still here\n\n"
                continue
            count = now
            try:
                state = look()
            except SageletError:
                return  # The job is gone, or the store is unavailable just now. The next request gets the error.
            if state[0] != seen:
                seen = state[0]
                yield _frame(*state)
            time.sleep(GAP)


def _frame(name: str, news: JsonObject) -> str:
    return f"event: change\nid: {name}\ndata: {json.dumps(news)}\n\n"
