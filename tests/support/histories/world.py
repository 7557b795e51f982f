"""The engine in a world where everything outside of it is simulated and may fail. One world is one history."""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from sagelet_engine import engine as engine_module
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import SageletError
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import Job, JobKey
from sagelet_engine.model.orchestration import Orchestration
from sagelet_engine.model.principal import allow_all
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.settings import Settings
from sagelet_engine.state.owner import lock_directory
from support.histories import database, files, threads
from support.histories.hosts import Hosts
from support.histories.ledger import Ledger
from support.histories.objects import Objects
from support.histories.schedule import Crashed, Life, Schedule

T = TypeVar("T")

BEGINNING_MS = 1_700_000_000_000
GPUS = ("GPU-1", "GPU-2")


class Unreachable(Exception):
    """No server answers, or it died with the request, so the request's result is unknown."""


class Clock:
    """The machine's wall clock, which somebody may set."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.ahead_ms = 0
        self.jumped = False
        #: Seconds by which it was set back in total. Times in records never go back, so a limit may count from later.
        self.back = 0.0

    @property
    def wall_ms(self) -> int:
        return BEGINNING_MS + self._schedule.now + self.ahead_ms

    def now_ms(self) -> int:
        self._schedule.step()
        return self.wall_ms


class Metrics:
    """CloudWatch."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def publish(self, key: JobKey, points: Sequence[MetricPoint]) -> None:
        self._schedule.step()


class Statuses:
    """EventBridge: the announcements, in order."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.announced: list[tuple[str, int]] = []

    @property
    def is_heard(self) -> bool:
        return True

    def announce(self, job: Job | Orchestration) -> None:
        assert isinstance(job, TrainingJob), "no history has an orchestration"
        self._schedule.step()
        if self._schedule.point("a slow sink", 0.1):
            self._schedule.sleep(self._schedule.random.random() * 3)
        self.announced.append((job.id, len(job.transitions)))
        self._schedule.step()


class World:
    """The world of one history. Clients reach the current server through `request`."""

    def __init__(self, seed: int, data: Path) -> None:
        self.seed = seed
        self.schedule = schedule = Schedule(seed)
        self.chance = schedule.random
        self.files = files.Files(schedule, str(data))
        self.disk = database.Disk()
        self.clock = Clock(schedule)
        self.objects = Objects(schedule, self.files)
        self.metrics = Metrics(schedule)
        self.statuses = Statuses(schedule)
        self.settings = Settings(
            data=data,
            max_jobs=self.chance.randint(1, 3),
            max_hosts=self.chance.randint(2, 4),
            stop_grace_seconds=self.chance.randint(1, 5),
        )
        self.ledger = Ledger(schedule, self.settings)
        self.hosts = Hosts(schedule, self.files, lambda: self.clock.wall_ms, self.ledger)
        self.hosts.watch = lambda host: self.ledger.launched(host, self.hosts.running())
        self.engine: Engine | None = None
        self.life = Life(0)
        self._lock: Any = None
        self._look: sqlite3.Connection | None = None
        schedule.on_death = self._died

    # --- the server -------------------------------------------------------------------------------------------

    def boot(self, steps: int = 0) -> bool:
        """Starts a server. Returns False if it did not come up. `steps`: it dies at this step, or never if 0."""
        schedule = self.schedule
        self.life = life = Life(self.life.number + 1)
        life.steps_left = steps
        schedule.note("boot", life.number, f"dies after {steps}" if steps else "")
        self._lock = lock_directory(self.settings.data)
        try:
            engine = schedule.visit(life, self._start)
        except Crashed:
            return False
        except (StoreUnavailable, SageletError, OSError) as error:
            schedule.note("did not start:", error)
            schedule.kill(life)
            return False
        self.engine = engine
        return True

    def _start(self) -> Engine:
        engine = Engine(
            self.settings,
            runtime=self.hosts,
            objects=self.objects,
            metrics=self.metrics,
            statuses=self.statuses,
            clock=self.clock,
            authorize=allow_all,
            lock=self._lock,
        )
        engine.start(4599)
        return engine

    def close(self) -> None:
        """Tells the server to end. Threads that do not end within its own limits end with the process."""
        engine, self.engine = self.engine, None
        if engine is None:
            return
        self.schedule.note("close")
        try:
            self.schedule.visit(self.life, engine.close)
        except Crashed:
            return
        self.schedule.kill(self.life)

    def request(self, work: Callable[[Engine], T]) -> T:
        """Makes a request. Raises Unreachable, and the engine's own errors."""
        engine, life = self.engine, self.life
        if engine is None:
            raise Unreachable
        try:
            return self.schedule.visit(life, lambda: work(engine))
        except Crashed:
            raise Unreachable from None

    def _died(self, life: Life) -> None:
        self.schedule.note("life", life.number, "is over")
        self.engine = None
        self._lock.close()
        self.disk.close()

    def end(self) -> None:
        """Closes what the history has open."""
        self.disk.close()
        for opened in (self._lock, self._look):
            if opened is not None:
                opened.close()

    # --- clocks -----------------------------------------------------------------------------------------------

    def jump(self, seconds: float) -> None:
        self.hosts.catch_up_all()
        self.schedule.note("the clock jumps by", seconds)
        self.clock.jumped = True
        self.clock.ahead_ms += round(seconds * 1000)
        self.clock.back += max(0.0, -seconds)

    def sql(self, question: str, *parameters: Any) -> list[Any]:
        """Reads the database directly, without the engine."""
        if self._look is None:
            self._look = sqlite3.connect(self.settings.data / "sagelet.db")
        return self._look.execute(question, parameters).fetchall()


@contextmanager
def a_world(seed: int, data: Path) -> Iterator[World]:
    """Yields a world whose engine is under control during the block."""
    world = World(seed, data)
    errors = _Errors(world.ledger)
    with ExitStack() as stack:
        stack.enter_context(threads.under_control(world.schedule))
        stack.enter_context(database.under_control(world.schedule, world.disk, world.ledger.committed))
        stack.enter_context(files.under_control(world.files))
        stack.enter_context(mock.patch.object(engine_module, "detect_gpus", return_value=GPUS))
        stack.enter_context(errors.listening())
        try:
            yield world
        finally:
            world.end()


class _Errors(logging.Handler):
    """Passes the engine's internal errors to the ledger: each must have a cause outside of the engine."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        self._ledger.logged(record)

    @contextmanager
    def listening(self) -> Iterator[None]:
        log = logging.getLogger("sagelet_engine")
        with mock.patch.multiple(log, handlers=[self], propagate=False, level=logging.ERROR):
            logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
            try:
                yield
            finally:
                pass
        logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]


def template(root: Path) -> Path:
    """Returns a data directory with a schema. Making a new one would take a good part of a history's time."""
    made = root / "template"
    if not made.exists():
        with closing(lock_directory(made)):
            from sagelet_engine.base.keys import key_pair
            from sagelet_engine.store.jobs import Store

            key_pair(made)
            Store(made / "sagelet.db").close()
    return made
