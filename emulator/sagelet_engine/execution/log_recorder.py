"""Turns a host's lines into log events and metric points. A thread follows each host."""

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import OutputTooLong, RuntimeUnavailable, is_known
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.execution.job_notes import Note
from sagelet_engine.model.job import Job
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.runtime import Handle, Line, Runtime
from sagelet_engine.model.sinks import MetricPoint, MetricSink, publish
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.metrics import MetricDefinitions

log = logging.getLogger(__name__)

#: Seconds until the follower reads again after a host's lines ended. The last value repeats. They are short because
#: the host is usually about to end.
FOLLOW_AGAIN_S = (0.005, 0.01, 0.02, 0.05, 0.1)
#: Seconds until a host is followed again after a failure.
RETRY_S = 1.0
#: The most batches of lines (at most 4,096 lines each) that wait for the store, of all hosts of a job together.
MOST_WAITING = 8
#: Number of lines at the end of a stream that are searched for a line of sagelet.
LOOK_BACK = 50
#: Failures in a row after which the follower gives up the output of a host that is down, so that its job can end.
MOST_FAILURES = 10


@dataclass(frozen=True)
class Output:
    """A follower's report: lines of a host, or None in their place if the host is down and all its lines are in."""

    host: str
    lines: list[Line] | None
    #: Why the job has to end, or None.
    fault: OutputTooLong | None = None


class Mailbox:
    """The queue into which followers put what they read. If it is full, they wait; if it is closed, they end."""

    def __init__(self, closing: threading.Event) -> None:
        """`closing` is set when the server shuts down. That closes every mailbox."""
        self._queue: queue.Queue[Output] = queue.Queue(maxsize=MOST_WAITING)
        self._closing = closing
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set() or self._closing.is_set()

    def close(self) -> None:
        self._closed.set()

    def pause(self, seconds: float) -> None:
        """Waits `seconds`, or until the mailbox is closed."""
        self._closed.wait(seconds)

    def put(self, output: Output) -> None:
        """Waits for room. Drops the output if the mailbox is closed: the next follower reads it again."""
        while not self.closed:
            try:
                self._queue.put(output, timeout=0.5)
                return
            except queue.Full:
                continue

    def drain(self, most: int, timeout: float) -> list[Output]:
        """Waits up to `timeout` seconds for output and returns it, about `most` lines at most.

        Joins neighbouring batches of the same host.
        """
        drained: list[Output] = []
        lines = 0
        while lines < most:
            try:
                output = self._queue.get(timeout=timeout) if not drained else self._queue.get_nowait()
            except queue.Empty:
                # There is no more output now.
                break
            lines += len(output.lines or ())
            last = drained[-1] if drained else None
            if last and last.host == output.host and last.lines is not None and output.lines is not None:
                drained[-1] = Output(last.host, last.lines + output.lines)
            else:
                drained.append(output)
        return drained


class Follower(threading.Thread):
    """Follows one host's lines into a mailbox. A full mailbox makes it wait, so memory stays bounded.

    It reports the end once the host is down and all its lines are in. Lines may end early: Docker closes a log before
    it reports the container's end. So the end of the lines counts only once the runtime has reported the host down.
    """

    def __init__(
        self,
        runtime: Runtime,
        handle: Handle,
        position: str | None,
        mailbox: Mailbox,
        note: Note,
    ) -> None:
        super().__init__(name=f"follow-{handle.host}", daemon=True)
        self._runtime = runtime
        self._followed = handle
        self._position = position
        self._mailbox = mailbox
        self._note = note

    def run(self) -> None:
        failures, down, pauses = 0, False, iter(FOLLOW_AGAIN_S)
        while not self._mailbox.closed:
            try:
                down = not self._runtime.observe(self._followed).running
                if self._follow():
                    pauses = iter(FOLLOW_AGAIN_S)
                if down:
                    break
                failures = 0
            except OutputTooLong as fault:
                self._mailbox.put(Output(self._followed.host, None, fault))
                return
            except RuntimeUnavailable as error:
                log.warning("%s: its output cannot be followed for now: %s", self._followed.host, error)
            except Exception as error:
                failures += 1
                text = "%s: following its output failed: %s"
                log.error(text, self._followed.host, error, exc_info=not is_known(error))
                if down and failures >= MOST_FAILURES:
                    why = f"{type(error).__name__}: {error}"
                    self._note(self._followed.host, f"sagelet: warning: the end of this log could not be read: {why}")
                    break
            self._mailbox.pause(RETRY_S if failures else next(pauses, FOLLOW_AGAIN_S[-1]))
        self._mailbox.put(Output(self._followed.host, None))

    def _follow(self) -> bool:
        """Reads the host's lines until they end. Returns True if there were any."""
        before = self._position
        for lines in self._runtime.lines(self._followed, self._position):
            if self._mailbox.closed:
                break
            if lines:
                self._position = lines[-1].position
                self._mailbox.put(Output(self._followed.host, lines))
        return self._position != before


class Recorder:
    """Writes one host's output into the store and sends its metric points on to CloudWatch."""

    def __init__(self, store: Store, sink: MetricSink, clock: Clock, job: Job, handle: Handle, note: Note) -> None:
        self._store = store
        self._sink = sink
        self._clock = clock
        self._job = job
        self._host = handle.host
        self._note = note
        self._definitions = MetricDefinitions(job.spec.metric_definitions)
        name = f"{job.key.name}/{handle.host}-{handle.started_ms // 1000}"
        self._stream = store.open_stream(job, handle.host, name, handle.started_ms)
        if job.stand_in and not self._stream.events:
            self._append([LogEvent(handle.started_ms, f"sagelet: {job.stand_in}")], None, [])

    @property
    def position(self) -> str | None:
        return self._stream.position

    def record(self, lines: list[Line]) -> None:
        events = [LogEvent(line.time_ms, line.text) for line in lines]
        points = self._definitions.points(events)
        for text in self._definitions.take_notes():
            self._note(self._host, text)
        self._append(events, lines[-1].position, points)

    def warn(self, texts: Sequence[str]) -> None:
        """Adds lines of sagelet's own at the current end of the stream."""
        if texts:
            now = self._clock.now_ms()
            self._append([LogEvent(now, text) for text in texts], None, [])

    def note(self, texts: Sequence[str]) -> None:
        """Adds lines of sagelet's own at the stream's end, unless it ends with them already, as after a crash.

        Metric definitions apply only to the script's lines, not to these.
        """
        last = self._store.logs.events(self._stream, limit=1, newest_first=True)
        if texts and (not last or last[0].text != texts[-1]):
            now = self._clock.now_ms()
            self._append([LogEvent(now, text) for text in texts], None, [])

    def _append(self, events: list[LogEvent], position: str | None, points: list[MetricPoint]) -> None:
        failpoint(Failpoint.BEFORE_LINES)
        self._stream = self._store.append_output(self._stream, events, position, points, self._clock.now_ms())
        failpoint(Failpoint.AFTER_LINES)
        if points:
            finite = [point for point in points if isfinite(point.value)]
            publish(self._sink, self._job.key, finite, self._note)


def note_after_end(store: Store, clock: Clock, job: Job, host: str, texts: Sequence[str]) -> None:
    """Adds lines of sagelet's own to the stream of a removed host, unless a step is repeated and has added them."""
    now = clock.now_ms()
    stream = store.open_stream(job, host, f"{job.key.name}/{host}-{now // 1000}", now)
    there = {event.text for event in store.logs.events(stream, limit=LOOK_BACK, newest_first=True)}
    fresh = [LogEvent(now, text) for text in texts if text not in there]
    if fresh:
        store.append_output(stream, fresh, None, [], now)
