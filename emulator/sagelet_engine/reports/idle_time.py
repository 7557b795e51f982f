"""The longest time in which a job did nothing: no line, no step, no CPU or GPU busy, on any host. And where."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sagelet_engine.doctor.case import Idle, Waiting, all_steps
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.worker import IdleNote, WorkerReport

#: What a host's CPUs and GPUs did, and the percent below which nothing works there: of one core, or of the GPUs' mean.
CPU, GPU = "CPUUtilization", "GPUUtilization"
IDLE_PERCENT = 5.0
#: Shorter times are not looked for: ms, and the share of the training. So a search has few places to look at.
LEAST_MS, SHARE = 60_000, 0.25
#: Files of Python's libraries in which a process waits for one that it has started.
_FOR_A_CHILD = ("subprocess.py:", "popen_fork.py:", "popen_spawn_posix.py:")
_EVER = 2**62


class Window(NamedTuple):
    """A part of the training, in ms since the epoch."""

    start_ms: int
    end_ms: int

    @property
    def ms(self) -> int:
        return self.end_ms - self.start_ms

    def common(self, other: "Window") -> "Window":
        return Window(max(self.start_ms, other.start_ms), min(self.end_ms, other.end_ms))


def longest(
    store: Store, job: TrainingJob, training: Window, workers: Sequence[WorkerReport], notes: Sequence[IdleNote]
) -> Idle:
    """Returns the longest such time of at least a minute and a quarter of the training. 0 s if there is none."""
    least = max(LEAST_MS, int(training.ms * SHARE))
    quiet = [part for part in without_cpu(store.points.of_hosts(job.id), job.hosts, training) if part.ms >= least]
    for worker in workers:
        if all_steps(worker):
            quiet = _common(quiet, list(_without_a_step(worker, notes)), least)
    silent = [gap for part in quiet for gap in _gaps(store, job.id, part, least)]
    found = max(silent, key=lambda gap: gap.ms, default=None)
    if found is None or found.ms < least:
        return Idle()
    after = (found.start_ms - training.start_ms) / 1000
    return Idle(found.ms / 1000, after, waiting(notes, found))


def without_cpu(points: Iterable[MetricPoint], hosts: Sequence[str], training: Window) -> Iterator[Window]:
    """Yields the parts of the training in which each host was measured and none used a CPU or a GPU, by time.

    `points`: the instance metrics by time. A point has the mean since the one before it on its host.
    """
    looks = {(host, name): training.start_ms for host in hosts for name in (CPU, GPU)}
    busy: list[Window] = []
    for point in points:
        before = looks.get((point.host, point.name))
        if before is None or point.time_ms <= training.start_ms:
            continue
        looks[point.host, point.name] = point.time_ms
        if point.value >= IDLE_PERCENT:
            busy.append(Window(before, point.time_ms))
    measured = min(training.end_ms, *(looks[host, CPU] for host in hosts))
    at = training.start_ms
    for part in [*sorted(busy), Window(measured, measured)]:
        if part.start_ms > at:
            yield Window(at, min(part.start_ms, measured))
        at = max(at, part.end_ms)


def waiting(notes: Iterable[IdleNote], window: Window) -> Waiting:
    """Returns where a process was that did nothing for at least half of a time.

    One that trains comes first, and one that only waited for its child comes last.
    """
    idle = [one for one in notes if one.stack and 2 * Window(one.start_ms, one.end_ms).common(window).ms >= window.ms]
    if not idle:
        return Waiting()
    first = min(idle, key=lambda one: (not one.trains, _waits_for_a_child(one), one.rank, one.started_ms, one.pid))
    return Waiting(first.rank if first.trains else None, first.stack)


def _waits_for_a_child(note: IdleNote) -> bool:
    return any(file in call for call in note.stack for file in _FOR_A_CHILD)


def _without_a_step(worker: WorkerReport, notes: Iterable[IdleNote]) -> Iterator[Window]:
    """Yields the times in which a worker ended no step, as far as it is known."""
    yield Window(0, worker.started_ms + int(worker.time_to_first_step_seconds * 1000))
    yield Window(worker.last_step_ms, _EVER)
    for note in notes:
        if note.trains and (note.host, note.pid) == (worker.host, worker.pid):
            yield Window(note.start_ms, note.end_ms)


def _common(some: Sequence[Window], others: Sequence[Window], least: int) -> list[Window]:
    """Returns what windows of both have in common, of at least `least` ms. What lies within another is left out."""
    found = {one.common(other) for one in some for other in others}
    found = {one for one in found if one.ms >= least}
    return [one for one in found if not any(one != other and one.common(other) == one for other in found)]


def _gaps(store: Store, job_id: str, part: Window, least: int) -> Iterator[Window]:
    """Yields the gaps between lines. Each of at least `least` ms has one of the moments that are looked at."""
    for moment in range(part.start_ms, part.end_ms, least):
        yield Window(*store.logs.times_around(job_id, moment)).common(part)
