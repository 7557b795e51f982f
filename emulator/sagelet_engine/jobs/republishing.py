"""CloudWatch's copy of metric points is in memory: the newest go to it again at a start."""

import logging
import threading

from sagelet_engine.database import StoreUnavailable
from sagelet_engine.jobs.record import JobKey
from sagelet_engine.jobs.store import Store
from sagelet_engine.telemetry.output import publish
from sagelet_engine.telemetry.sink import MetricSink

log = logging.getLogger(__name__)

#: Metric points that CloudWatch gets again, however many there are.
MOST_POINTS = 50_000
#: Seconds until a store that was unavailable is asked again.
RETRY_SECONDS = 1.0


class Republishing(threading.Thread):
    """Of the points that are there when it is made, beside all else: jobs publish those that come from then on."""

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
                log.warning("CloudWatch gets earlier metric points later: %s", error)
                self._closing.wait(RETRY_SECONDS)

    def _publish(self) -> None:
        for key, points in self._store.newest_points(self._known, MOST_POINTS):
            if self._closing.is_set():
                return
            if key not in self._done:
                publish(self._sink, key, points)
                self._done.add(key)
