"""What the engine's modules call `threading`, `queue`, `time` and `uuid` while a history runs.

The names are replaced in the engine's modules, not in the standard library, so other threads of this process
(pytest-xdist's, say) keep the real ones. Only of Thread itself three methods are replaced, because the engine's threads
are subclasses of it.
"""

import importlib
import pkgutil
import queue
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace, TracebackType
from typing import Any
from unittest import mock

import sagelet_engine
from support.histories.schedule import Schedule, Task


class Lock:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._held = False
        self._waiting: deque[Task] = deque()

    def acquire(self) -> bool:
        self._schedule.step()
        while self._held:
            assert self._schedule.current is not None
            self._waiting.append(self._schedule.current)
            self._schedule.park()
        self._held = True
        return True

    def release(self) -> None:
        assert self._held
        self._held = False
        if self._waiting:
            self._schedule.wake(self._waiting.popleft())

    __enter__ = acquire

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Event:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        self._schedule.step()
        return self._set

    def set(self) -> None:
        self._schedule.step()
        self._set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self._schedule.wake(task)

    def clear(self) -> None:
        self._schedule.step()
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        self._schedule.step()
        if self._set or (timeout is not None and timeout <= 0):
            return self._set
        task = self._schedule.current
        assert task is not None
        self._waiting.append(task)
        if not self._schedule.park(timeout) and task in self._waiting:
            self._waiting.remove(task)
        return self._set


class Condition:
    """A condition with the methods that the engine uses."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lock = Lock(schedule)
        self._waiting: list[Task] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self._schedule.wake(task)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        schedule = self._schedule
        deadline = None if timeout is None else schedule.now + timeout * 1000
        while not (found := predicate()):
            left = None if deadline is None else (deadline - schedule.now) / 1000
            if left is not None and left <= 0:
                break
            assert schedule.current is not None
            self._waiting.append(schedule.current)
            self._lock.release()
            schedule.park(left)
            self._lock.acquire()
        return found


class Queue:
    def __init__(self, schedule: Schedule, maxsize: int = 0) -> None:
        self._schedule = schedule
        self._most = maxsize
        self._items: deque[Any] = deque()
        self._changed: list[Task] = []

    def put(self, item: Any, timeout: float | None = None) -> None:
        self._await(lambda: not self._most or len(self._items) < self._most, timeout, queue.Full)
        self._items.append(item)
        self._rouse()

    def get(self, timeout: float | None = None) -> Any:
        self._await(lambda: bool(self._items), timeout, queue.Empty)
        item = self._items.popleft()
        self._rouse()
        return item

    def get_nowait(self) -> Any:
        return self.get(0)

    def _await(self, ready: Callable[[], bool], timeout: float | None, late: type[Exception]) -> None:
        schedule = self._schedule
        schedule.step()
        deadline = None if timeout is None else schedule.now + timeout * 1000
        while not ready():
            left = None if deadline is None else (deadline - schedule.now) / 1000
            if left is not None and left <= 0:
                raise late
            assert schedule.current is not None
            self._changed.append(schedule.current)
            schedule.park(left)

    def _rouse(self) -> None:
        changed, self._changed = self._changed, []
        for task in changed:
            self._schedule.wake(task)


def _start(schedule: Schedule) -> Callable[[threading.Thread], None]:
    real, home = threading.Thread.start, threading.get_ident()

    def start(thread: threading.Thread) -> None:
        if threading.get_ident() != home:
            real(thread)
            return
        schedule.step()
        assert schedule.current is not None
        vars(thread)["simulated"] = schedule.spawn(thread.name, thread.run, schedule.current.life)

    return start


def _join(schedule: Schedule) -> Callable[..., None]:
    real = threading.Thread.join

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        task: Task | None = vars(thread).get("simulated")
        if task is None:
            real(thread, timeout)
            return
        schedule.step()
        if not task.over:
            assert schedule.current is not None
            task.joiners.append(schedule.current)
            schedule.park(timeout)

    return join


def _is_alive() -> Callable[[threading.Thread], bool]:
    real = threading.Thread.is_alive

    def is_alive(thread: threading.Thread) -> bool:
        task: Task | None = vars(thread).get("simulated")
        return real(thread) if task is None else not task.over

    return is_alive


@cache
def _load_the_engine() -> None:
    """Imports all of the engine: a module that it loads later would have Python's own threads and clock."""
    for module in pkgutil.walk_packages(sagelet_engine.__path__, "sagelet_engine."):
        importlib.import_module(module.name)


@contextmanager
def under_control(schedule: Schedule) -> Iterator[None]:
    """Puts the engine's threads, waits and random names under the schedule's control during the block."""
    _load_the_engine()
    names = {
        "threading": _namespace(
            threading,
            Lock=lambda: Lock(schedule),
            Event=lambda: Event(schedule),
            Condition=lambda: Condition(schedule),
        ),
        "queue": _namespace(queue, Queue=lambda maxsize=0: Queue(schedule, maxsize)),
        "time": _namespace(time, monotonic=lambda: schedule.now / 1000, sleep=schedule.sleep),
        "uuid": _namespace(uuid, uuid4=lambda: uuid.UUID(int=schedule.random.getrandbits(128), version=4)),
    }
    real = {"threading": threading, "queue": queue, "time": time, "uuid": uuid}
    replaced = [
        (module, name)
        for path, module in sorted(sys.modules.items())
        if path.startswith("sagelet_engine.")
        for name in names
        if vars(module).get(name) is real[name]
    ]
    thread = mock.patch.multiple(threading.Thread, start=_start(schedule), join=_join(schedule), is_alive=_is_alive())
    try:
        for module, name in replaced:
            setattr(module, name, names[name])
        with thread:
            yield
    finally:
        for module, name in replaced:
            setattr(module, name, real[name])


def _namespace(module: Any, **instead: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(module), **instead})
