"""Threads under control: runs the engine's threads, locks, events and queues one at a time, in the order of a seed.

A thread of the engine becomes a greenlet. It runs until it comes to a *step*: a lock, an event, a queue, a look at the
clock, an SQL statement, a file, a call to the outside world. There the seed decides which thread goes on, and whether
the whole process dies. Time is a number. It stands still while any thread can run, and jumps to the next alarm when all
wait. So a history is a function of its seed: no clock, operating system's scheduler or hash of a string affects it.

A process that dies (`kill`) ends all its threads. Each unwinds at once. The first step on its way (in a `finally`, say)
ends it again, so nothing that it does then reaches the outside.
"""

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import greenlet

T = TypeVar("T")

#: Steps of one history, at most. A history with more runs in circles.
MOST_STEPS = 400_000


class Crashed(BaseException):
    """The process of this thread is dead. It is not an Exception, so that nothing catches it by accident."""


class Stuck(AssertionError):
    """No thread can run and none waits for time to pass, or all run for ever."""


class Life:
    """One process of the server, from its start to its end."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.dead = False
        #: It dies at this step of its own; 0: it does not.
        self.steps_left = 0
        self.tasks: list[Task] = []
        #: Threads of the outside that are in it with a request.
        self.visitors: list[Task] = []


class Task:
    """One thread of a life, or of the world outside if the life is None."""

    def __init__(self, name: str, life: Life | None, run: Callable[[], object], hub: greenlet.greenlet) -> None:
        self.name = name
        self.life = life
        self.greenlet = greenlet.greenlet(run, hub)
        self.over = False
        self.parked = False
        self.woken = False
        self.ticket = 0
        self.joiners: list[Task] = []


class Schedule:
    """Everything that runs in one history, and its time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        #: ms since the beginning of the history. Setting a clock back does not change it.
        self.now = 0
        #: The probability that a step lets another thread run. Some histories switch at every step, some hardly ever.
        self.restless = self.random.choice([0.05, 0.3, 0.3, 1.0])
        #: Called when all threads of a life have ended.
        self.on_death: Callable[[Life], None] = lambda life: None
        #: Seconds by which things may be late because of faults so far.
        self.trouble = 0.0
        #: How often S3 or a file failed so far. Such a failure may make a job fail.
        self.losses = 0
        self.trace: list[str] = []
        self.steps = 0
        self.current: Task | None = None
        self._ready: list[Task] = []
        self._alarms: list[tuple[int, int, Task, int]] = []
        self._numbers = itertools.count()
        self._hub = greenlet.getcurrent()
        self._thread = threading.get_ident()
        self._doomed: Life | None = None
        self._failure: BaseException | None = None
        #: The kinds of faults that this history has.
        self._points: dict[str, bool] = {}
        #: True if no more faults happen: everything that was begun must end.
        self.quiet = False

    # --- chance -----------------------------------------------------------------------------------------------

    def point(self, name: str, likely: float = 0.25) -> bool:
        """True if a fault happens here and now. Only a quarter of all histories have faults at a given point."""
        if self.quiet:
            return False
        known = self._points.get(name)
        if known is None:
            known = self._points[name] = self.random.random() < 0.25
        if not known or self.random.random() >= likely:
            return False
        self.note("fault", name)
        self.trouble += 2
        return True

    def note(self, *words: object) -> None:
        """Adds a line to the trace."""
        who = self.current.name if self.current is not None else "-"
        self.trace.append(f"{self.now / 1000:.3f} {who}: {' '.join(map(str, words))}")

    # --- threads ----------------------------------------------------------------------------------------------

    def spawn(self, name: str, run: Callable[[], object], life: Life | None) -> Task:
        task: Task

        def whole() -> None:
            try:
                run()
            except Crashed:
                pass
            except BaseException as error:
                self._failure = self._failure or error
            task.over = True
            for joiner in task.joiners:
                self.wake(joiner)

        task = Task(name, life, whole, self._hub)
        if life is not None:
            life.tasks.append(task)
        self._ready.append(task)
        return task

    def run(self, name: str, main: Callable[[], T]) -> T:
        """Runs `main`, and everything that it starts, until it returns."""
        results: list[T] = []
        first = self.spawn(name, lambda: results.append(main()), None)
        while not first.over and self._failure is None:
            if not self._ready:
                self._pass_time()
            place = int(self.random.random() * len(self._ready))
            task = self._ready[place]
            self._ready[place] = self._ready[-1]
            self._ready.pop()
            self.current = task
            task.greenlet.switch()
            self.current = None
            if self._doomed is not None:
                self._end_of(self._doomed)
        if self._failure is not None:
            raise self._failure
        return results[0]

    def mortal(self) -> Task:
        """A point where the process may die."""
        task = self.current
        assert task is not None
        life = task.life
        if life is not None:
            if life.dead:
                raise Crashed
            if life.steps_left:
                life.steps_left -= 1
                if not life.steps_left:
                    self.kill(life)
        return task

    def step(self) -> None:
        """A point where another thread may go on and where the process may die."""
        task = self.mortal()
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stuck(f"more than {MOST_STEPS} steps")
        if self._ready and (self.restless == 1.0 or self.random.random() < self.restless):
            self._ready.append(task)
            self._leave()

    def park(self, seconds: float | None = None) -> bool:
        """Waits to be woken. False if the time was over first."""
        task = self.current
        assert task is not None
        if task.life is not None and task.life.dead:
            raise Crashed
        task.parked, task.woken = True, False
        task.ticket += 1
        if seconds is not None:
            at = self.now + max(1, round(seconds * 1000))
            heapq.heappush(self._alarms, (at, next(self._numbers), task, task.ticket))
        self._leave()
        return task.woken

    def sleep(self, seconds: float) -> None:
        """Stands for `time.sleep`, also in threads that other tests of this process left: those sleep as ever."""
        if threading.get_ident() == self._thread:
            self.park(seconds)
        else:
            time.sleep(seconds)

    def wake(self, task: Task) -> None:
        if task.parked:
            task.parked, task.woken = False, True
            task.ticket += 1
            self._ready.append(task)

    def kill(self, life: Life) -> None:
        """kill -9. Does not return to a thread of that life."""
        task = self.current
        assert task is not None
        self._doomed = life
        self._ready.append(task)
        self._leave()

    # --- inner ------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        self._hub.switch()

    def _pass_time(self) -> None:
        """Moves time to the next alarm and wakes all threads whose alarm it is. Called when all wait."""
        while self._alarms and not self._ready:
            at, _, task, ticket = heapq.heappop(self._alarms)
            if not task.parked or ticket != task.ticket:
                continue
            self.now = at
            task.parked = False
            self._ready.append(task)
            while self._alarms and self._alarms[0][0] == at:
                _, _, other, ticket = heapq.heappop(self._alarms)
                if other.parked and ticket == other.ticket:
                    other.parked = False
                    self._ready.append(other)
        if not self._ready:
            raise Stuck("every thread waits for another")

    def _end_of(self, life: Life) -> None:
        self._doomed = None
        life.dead = True
        for task in [*life.tasks, *life.visitors]:
            if task.over:
                continue
            if task in self._ready:
                self._ready.remove(task)
            task.parked = False
            self.current = task
            if task.greenlet:
                task.greenlet.throw(Crashed)
        for task in life.tasks:
            task.over = True
        self.current = None
        self.on_death(life)

    def visit(self, life: Life, work: Callable[[], T]) -> T:
        """Runs a request: a thread of the outside within a life. Raises Crashed if that life ends meanwhile."""
        task = self.current
        assert task is not None
        assert task.life is None
        if life.dead:
            raise Crashed
        task.life = life
        life.visitors.append(task)
        try:
            return work()
        finally:
            task.life = None
            life.visitors.remove(task)
