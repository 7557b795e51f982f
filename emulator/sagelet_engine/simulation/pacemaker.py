"""Sets a simulated clock forward to the next moment at which a function or the engine has something to do.

Time must not pass while the engine still works on a job. The job's record and what its hosts are doing say whether it
does, so nothing here depends on how fast the machine is.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterator, Sequence

from sagelet_engine.base.errors import is_known
from sagelet_engine.execution.host_watch import REMAINING_GRACE_SECONDS
from sagelet_engine.model import faults, interruptions, lifecycle
from sagelet_engine.model.job import Job, SecondaryStatus
from sagelet_engine.orchestration.orchestrator import Orchestrator
from sagelet_engine.settings import Settings
from sagelet_engine.simulation.clock import SimulatedClock
from sagelet_engine.simulation.functions import FunctionHost, FunctionRuntime

log = logging.getLogger(__name__)
S = SecondaryStatus

#: Real seconds between two looks.
POLL_S = 0.01
#: Number of looks after which a job that could have its place, but does not get it, counts as waiting.
PATIENCE_LOOKS = 200


class Pacemaker(threading.Thread):
    """Turns the clock. `unfinished` returns the jobs that have not ended, oldest first. `position` returns the position
    of the last line of a job's host that is stored, or None.
    """

    def __init__(
        self,
        clock: SimulatedClock,
        runtime: FunctionRuntime,
        settings: Settings,
        unfinished: Callable[[], Sequence[Job]],
        orchestrator: Orchestrator,
        position: Callable[[Job, str], str | None],
    ) -> None:
        super().__init__(name="pacemaker", daemon=True)
        self._clock = clock
        self._runtime = runtime
        self._settings = settings
        self._unfinished = unfinished
        self._orchestrator = orchestrator
        self._position = position
        self._closing = threading.Event()
        #: Number of looks in a row that found a job waiting for a free place.
        self._waits = 0

    def close(self) -> None:
        """Ends the thread. Simulated time no longer advances."""
        self._closing.set()
        self.join()

    def run(self) -> None:
        while not self._closing.wait(POLL_S):
            try:
                self.look()
            except Exception as error:
                text = "the simulated clock could not be advanced; trying again: %s"
                log.error(text, error, exc_info=not is_known(error))
                self._closing.wait(1.0)

    def look(self) -> None:
        """Turns the clock if no function and no part of the engine has anything to do now."""
        if self._clock.at_work:
            return
        now = self._clock.now_ms()
        # First, because it is cheap, and there may be hundreds of jobs.
        heeded = self._orchestrator.settled(now)
        if heeded is None and not self._runtime.is_awaited:
            return
        stirred = self._runtime.stirred
        jobs = self._unfinished()
        next_ms = self._next_of_all(jobs, now)
        if next_ms is None:
            return
        self._runtime.rest(stirred)
        # If anything has changed meanwhile, a job may have ended that was read no more, and an orchestrator may have
        # made one that was not read yet.
        if heeded is None or self._orchestrator.settled(now) != heeded:
            return
        self._runtime.stir()
        self._clock.turn_to(min(next_ms, self._clock.next_wake_ms(), self._orchestrator.due_ms or math.inf))

    def _next_of_all(self, jobs: Sequence[Job], now_ms: int) -> float | None:
        """Returns when something is to happen to one of the jobs, or None if the engine works on one now."""
        # Also while lines are not stored, since an orchestrator may stop a job because of them.
        if self._is_placing(jobs) or self._has_new_lines(jobs):
            return None
        next_ms = math.inf
        for job in jobs:
            moment = self._next_ms(job, now_ms)
            if moment is None or moment <= now_ms:
                return None
            next_ms = min(next_ms, moment)
        return next_ms

    def _has_new_lines(self, jobs: Sequence[Job]) -> bool:
        """True if a running child of an orchestration has printed lines that are not stored yet."""
        if not self._orchestrator.drives_any:
            return False
        children = [job for job in jobs if job.parent is not None and job.secondary in lifecycle.RUNNING]
        return any(
            one.ended is None and one.last_position not in (None, self._position(job, one.handle.host))
            for job in children
            for one in self._runtime.hosts(job.launch_id)
        )

    def _is_placing(self, jobs: Sequence[Job]) -> bool:
        """True if the scheduler is about to give a waiting job its hosts. A warm pool may have the last ones."""
        placed = [job for job in jobs if job.placed_ms is not None]
        waiting = next((job for job in jobs if job.placed_ms is None), None)
        hosts = sum(len(job.hosts) for job in placed)
        free = len(placed) < self._settings.max_jobs and (
            waiting is not None and hosts + len(waiting.hosts) <= self._settings.host_limit
        )
        self._waits = self._waits + 1 if free else 0
        return 0 < self._waits <= PATIENCE_LOOKS

    def _next_ms(self, job: Job, now_ms: int) -> float | None:
        """Returns when something is to happen to a job, or None if the engine works on it now."""
        due_ms = next_ms(job, now_ms)
        if job.placed_ms is None:
            return due_ms if job.secondary is S.PENDING else None
        if slow_start_seconds(job, now_ms) is not None:
            return due_ms
        hosts = self._runtime.hosts(job.launch_id)
        live = [host for host in hosts if host.ended is None]
        if not live or not job.launched or job.secondary in (S.DOWNLOADING, S.UPLOADING):
            return None
        ending = job.secondary not in lifecycle.RUNNING or any(host.failed for host in hosts)
        if not ending:
            return due_ms
        if any(host.asked_ms is None for host in live):
            return None
        return min(due_ms, *(self._killed_ms(job, host) for host in live))

    def _killed_ms(self, job: Job, host: FunctionHost) -> float:
        """Returns when the grace of a host that was asked to end is over."""
        assert host.asked_ms is not None
        if job.secondary in lifecycle.RUNNING:
            return host.asked_ms + REMAINING_GRACE_SECONDS * 1000
        since = job.stop_ms or job.transitions[-1].start_ms
        return since + self._settings.stop_grace_seconds * 1000


def next_ms(job: Job, now_ms: int) -> float:
    """Returns the next such moment, ms since the epoch, or infinite if there is none. A past one is due now.

    Leaves out the ends of hosts that were asked to end, since the record does not have them.
    """
    return min(_moments(job, now_ms), default=math.inf)


def slow_start_seconds(job: Job, now_ms: int) -> float | None:
    """Returns how many more seconds the job's tag delays its start, or None if it does not."""
    if job.placed_ms is None or job.secondary not in (SecondaryStatus.STARTING, SecondaryStatus.PENDING):
        return None
    try:
        slow = faults.starting(job, now_ms)
    except faults.InjectedFault:
        return None
    return None if slow is None else slow[1]


def _moments(job: Job, now_ms: int) -> Iterator[float]:
    if job.stop_cause is None and job.secondary in lifecycle.RUNNING:
        if job.attempt_start_ms is not None:
            yield now_ms + job.spec.max_runtime_seconds * 1000 - job.running_ms(now_ms)
        if job.max_wait_ms is not None:
            yield job.max_wait_ms
    for moment in (interruptions.due_ms(job), faults.training_ms(job)):
        if moment is not None:
            yield moment
    slow = slow_start_seconds(job, now_ms)
    if slow is not None:
        yield now_ms + slow * 1000
