"""From a host's lines to log events and metric points, and the thread that follows a host."""

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from sagelet_engine.clock import Clock
from sagelet_engine.errors import OutputTooLong, RuntimeUnavailable
from sagelet_engine.failpoints import Failpoint, failpoint
from sagelet_engine.jobs.record import JobKey, TrainingJob
from sagelet_engine.jobs.store import Store
from sagelet_engine.runtimes.port import Handle, Line, Runtime
from sagelet_engine.telemetry.events import LogEvent
from sagelet_engine.telemetry.metrics import MetricDefinitions
from sagelet_engine.telemetry.sink import MetricPoint, MetricSink

log = logging.getLogger(__name__)

#: Seconds until a host is followed again whose lines ended, the last for all that follow. Most often it is just ending.
FOLLOW_AGAIN_S = (0.005, 0.01, 0.02, 0.05, 0.1)
#: Seconds until it is after a failure.
RETRY_S = 1.0
#: Batches of lines that wait for the store, of all hosts of a job; at most 4,096 lines each.
MOST_WAITING = 8
#: Lines at the end of a stream among which a line of ours is looked for.
LOOK_BACK = 50
#: Failures in a row after which the output of a host that is down is given up; its job still gets its end.
MOST_FAILURES = 10


@dataclass(frozen=True)
class Output:
    """What a follower reports: lines of a host, or (None) that the host is down and has no more."""

    host: str
    lines: list[Line] | None
    #: Why the job has to end.
    fault: OutputTooLong | None = None


class Mailbox:
    """Where followers put what they read. A full one holds them back, a closed one ends them."""

    def __init__(self, closing: threading.Event) -> None:
        """`closing`: the server goes down, which closes every mailbox."""
        self._queue: queue.Queue[Output] = queue.Queue(maxsize=MOST_WAITING)
        self._closing = closing
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set() or self._closing.is_set()

    def close(self) -> None:
        self._closed.set()

    def pause(self, seconds: float) -> None:
        """Waits, no longer than until the mailbox is closed."""
        self._closed.wait(seconds)

    def put(self, output: Output) -> None:
        """Waits for room; drops the output once the mailbox is closed: the next follower reads it again."""
        while not self.closed:
            try:
                self._queue.put(output, timeout=0.5)
                return
            except queue.Full:
                continue

    def drain(self, most: int, timeout: float) -> list[Output]:
        """What came in, neighbouring batches of a host as one, until there are `most` lines; waits for the first."""
        drained: list[Output] = []
        lines = 0
        try:
            while lines < most:
                output = self._queue.get(timeout=timeout) if not drained else self._queue.get_nowait()
                lines += len(output.lines or ())
                last = drained[-1] if drained else None
                if last and last.host == output.host and last.lines is not None and output.lines is not None:
                    drained[-1] = Output(last.host, last.lines + output.lines)
                else:
                    drained.append(output)
        except queue.Empty:
            pass
        return drained


class Follower(threading.Thread):
    """Follows one host's lines into a mailbox; a full mailbox holds it back, so memory stays bounded.

    It reports the end once the host is down and all its lines are in. A runtime's lines may end early, and Docker
    closes its log before it calls the container ended; so only an end counts that came after the host was seen down.
    """

    def __init__(
        self,
        runtime: Runtime,
        handle: Handle,
        position: str | None,
        mailbox: Mailbox,
    ) -> None:
        super().__init__(name=f"follow-{handle.host}", daemon=True)
        self._runtime = runtime
        self._followed = handle
        self._position = position
        self._mailbox = mailbox

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
            except Exception:
                failures += 1
                log.exception("%s: following its output failed", self._followed.host)
                if down and failures >= MOST_FAILURES:
                    break
            self._mailbox.pause(RETRY_S if failures else next(pauses, FOLLOW_AGAIN_S[-1]))
        self._mailbox.put(Output(self._followed.host, None))

    def _follow(self) -> bool:
        """Whether there were lines."""
        before = self._position
        for lines in self._runtime.lines(self._followed, self._position):
            if self._mailbox.closed:
                break
            if lines:
                self._position = lines[-1].position
                self._mailbox.put(Output(self._followed.host, lines))
        return self._position != before


class Recorder:
    """Writes one host's output into the store and its metric points on to CloudWatch."""

    def __init__(self, store: Store, sink: MetricSink, clock: Clock, job: TrainingJob, handle: Handle) -> None:
        self._store = store
        self._sink = sink
        self._clock = clock
        self._job = job
        self._definitions = MetricDefinitions(job.request["AlgorithmSpecification"].get("MetricDefinitions", []))
        name = f"{job.key.name}/{handle.host}-{handle.started_ms // 1000}"
        self._stream = store.open_stream(job, handle.host, name, handle.started_ms)
        if job.stand_in and not self._stream.events:
            self._append([LogEvent(handle.started_ms, f"sagelet: {job.stand_in}")], None, [])

    @property
    def position(self) -> str | None:
        return self._stream.position

    def record(self, lines: list[Line]) -> None:
        events = [LogEvent(line.time_ms, line.text) for line in lines]
        self._append(events, lines[-1].position, self._definitions.points(events))

    def warn(self, texts: Sequence[str]) -> None:
        """Adds lines of ours where the stream is now."""
        if texts:
            now = self._clock.now_ms()
            self._append([LogEvent(now, text) for text in texts], None, [])

    def note(self, texts: Sequence[str]) -> None:
        """Adds lines of ours at the end of the stream, unless they are there: the end may be seen again after a crash.

        Metric definitions are for the script's lines.
        """
        last = self._store.events(self._stream.id, limit=1, newest_first=True)
        if texts and (not last or last[0].text != texts[-1]):
            now = self._clock.now_ms()
            self._append([LogEvent(now, text) for text in texts], None, [])

    def _append(self, events: list[LogEvent], position: str | None, points: list[MetricPoint]) -> None:
        failpoint(Failpoint.BEFORE_LINES)
        self._stream = self._store.append_output(self._stream, events, position, points, self._clock.now_ms())
        failpoint(Failpoint.AFTER_LINES)
        if points:
            publish(self._sink, self._job.key, points)


def note_after_end(store: Store, clock: Clock, job: TrainingJob, host: str, texts: Sequence[str]) -> None:
    """Adds lines of ours to the stream of a host that is gone, unless they are near its end: steps are repeated."""
    now = clock.now_ms()
    stream = store.open_stream(job, host, f"{job.key.name}/{host}-{now // 1000}", now)
    there = {event.text for event in store.events(stream.id, limit=LOOK_BACK, newest_first=True)}
    fresh = [LogEvent(now, text) for text in texts if text not in there]
    if fresh:
        store.append_output(stream, fresh, None, [], now)


def publish(sink: MetricSink, key: JobKey, points: list[MetricPoint]) -> None:
    """CloudWatch is a copy: the store has the points and brings them back at the next start."""
    try:
        sink.publish(key.account, key.region, key.name, points)
    except Exception:
        log.exception("%s: %d metric points did not reach CloudWatch", key.name, len(points))
