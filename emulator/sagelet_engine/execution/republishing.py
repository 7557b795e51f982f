"""Sends the newest metric points to CloudWatch again when a server starts: CloudWatch's copy is in memory only."""

import logging
import threading

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.sinks import MetricSink, publish
from sagelet_engine.store.jobs import Store

log = logging.getLogger(__name__)

#: The most metric points that CloudWatch gets again.
MOST_POINTS = 50_000
#: Seconds until the next try after the store was unavailable.
RETRY_SECONDS = 1.0


class Republishing(threading.Thread):
    """Republishes in the background the points that exist when it is created. Jobs publish later points themselves."""

    def __init__(self, store: Store, sink: MetricSink, now_ms: int, closing: threading.Event) -> None:
        super().__init__(name="republishing", daemon=True)
        self._store = store
        self._sink = sink
        self._known = store.known_points(now_ms)
        self._closing = closing
        self._done: set[JobKey] = set()

    def run(self) -> None:
        while not self._closing.is_set():
            try:
                self._publish()
                return
            except StoreUnavailable as error:
                log.warning("earlier metric points are not in CloudWatch yet; trying again: %s", error)
                self._closing.wait(RETRY_SECONDS)

    def _publish(self) -> None:
        for key, points in self._store.newest_points(self._known, MOST_POINTS):
            if self._closing.is_set():
                return
            if key not in self._done:
                publish(self._sink, key, points)
                self._done.add(key)
