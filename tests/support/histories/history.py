"""One history: a server starts, breaks and dies while clients go on, until every job has ended."""

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from support.histories import invariants
from support.histories.requests import LONG, Client
from support.histories.world import World, a_world, template

#: Seconds, at most, that something stays broken.
LONGEST_OUTAGE_S = 15
#: Lines shown of a failed history's trace.
LAST_LINES = 60


class Failed(AssertionError):
    """A history broke a rule. The message says how to repeat it."""


class Operator:
    """Breaks things for a while and repairs each. Starts the server again whenever it is gone."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance
        self._crashes = self._chance.choice([0, 0, 1, 1, 2, 3])
        self._plan: list[tuple[int, Callable[[], None]]] = []
        self.over = False
        for what in (self._disk, self._runtime, self._objects, self._jump, self._host, self._restart, self._files):
            if self._chance.random() < 0.25:
                for _ in range(self._chance.randint(1, 2)):
                    self._plan.append((int(15_000 * self._chance.random() ** 2), what))

    def run(self) -> None:
        schedule = self._world.schedule
        self._plan.sort(key=lambda entry: entry[0])
        while not self.over:
            if self._world.engine is None:
                self._boot()
            elif self._plan and self._plan[0][0] <= schedule.now and not schedule.quiet:
                self._plan.pop(0)[1]()
            schedule.sleep(0.3)

    def _boot(self) -> None:
        began = self._world.schedule.now
        self._world.schedule.sleep(self._chance.choice([0.01, 1.0, 5.0]) * self._chance.random())
        steps = 0
        if self._crashes and not self._world.schedule.quiet:
            self._crashes -= 1
            steps = int(2 ** self._chance.uniform(1, 11))
        self._world.boot(steps)
        self._world.schedule.trouble += (self._world.schedule.now - began) / 1000 + 2

    # --- what breaks ------------------------------------------------------------------------------------------

    def _for_a_while(self, thing: object, what: str) -> None:
        seconds = self._chance.choice([1, 4, 15]) * self._chance.random()
        self._world.schedule.note(type(thing).__name__, what, "for", seconds)
        self._world.schedule.trouble += seconds + 2
        setattr(thing, what, True)

        def mend() -> None:
            setattr(thing, what, False)
            # Everything that began meanwhile was delayed, too.
            self._world.schedule.trouble += seconds + 2

        self._plan.append((self._world.schedule.now + int(seconds * 1000), mend))
        self._plan.sort(key=lambda entry: entry[0])

    def _disk(self) -> None:
        self._for_a_while(self._world.disk, self._chance.choice(["full", "gone"]))

    def _runtime(self) -> None:
        self._for_a_while(self._world.hosts, "down")

    def _objects(self) -> None:
        self._for_a_while(self._world.objects, "down")

    def _files(self) -> None:
        self._for_a_while(self._world.files, "full")

    def _jump(self) -> None:
        self._world.jump(self._chance.choice([-10, -3, 2, 20, 4000]) * self._chance.random())

    def _host(self) -> None:
        known = self._world.ledger.by_id
        # A host that is not in the record yet would rightly be started again.
        running = [host for host in self._world.hosts.running() if known[host.launch.job_id[:32]].last["launched"]]
        if running:
            self._world.hosts.vanish(self._chance.choice(running))

    def _restart(self) -> None:
        self._world.close()


def run(seed: int, data: Path) -> str:
    """Runs the history of a seed in an empty data directory. Returns its trace. Raises Failed."""
    with a_world(seed, data) as world:
        try:
            world.schedule.run("main", lambda: _main(world))
            if world.ledger.violation is not None:
                raise world.ledger.violation
        except Exception as error:
            raise Failed(
                f"seed {seed}: {type(error).__name__}: {error}\n{_trace(world, LAST_LINES)}\n"
                f"Repeat it: SAGELET_SEED={seed} pytest tests/reliability/test_simulation.py"
            ) from error
        return _trace(world)


def run_all(seeds: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Yields each seed with the trace of its history. Files are in memory if the machine has such a file system."""
    memory = Path("/dev/shm")
    gc.collect()
    # A generator that is collected in the middle of a history would run its `finally` at a moment that does not follow
    # from the seed. So no collection runs meanwhile, and objects from before are left out of collections.
    gc.freeze()
    gc.disable()
    try:
        with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as root:
            source = template(Path(root))
            for number, seed in enumerate(seeds):
                data = Path(root) / "data"
                shutil.copytree(source, data)
                yield seed, run(seed, data)
                shutil.rmtree(data)
                if number % 50 == 49:
                    gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()


def _trace(world: World, last: int = 0) -> str:
    return "\n".join(world.schedule.trace[-last:]).replace(str(world.settings.data), "DATA")


def _main(world: World) -> None:
    schedule = world.schedule
    for number in range(world.chance.randint(0, 3)):
        world.objects.kept["in", f"data/{number}"] = b"data"
    operator = Operator(world)
    tasks = [schedule.spawn("operator", operator.run, None)]
    clients = [
        schedule.spawn(f"client-{name}", Client(world, name).run, None) for name in "ab"[: world.chance.randint(1, 2)]
    ]
    _until(world, lambda: all(client.over for client in clients), 600)
    schedule.sleep(world.chance.choice([0, 5, 20]) * world.chance.random())
    _mend(world)
    _until(world, lambda: invariants.all_ended(world), invariants.bound(world))
    _until(world, lambda: world.engine is not None, 60)
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": world.settings.host_limit, "VolumeSizeInGB": 1}
    world.ledger.probe = "probe"
    Client(world, "probe").create(
        "probe", {"ResourceConfig": resources, "StoppingCondition": {"MaxRuntimeInSeconds": LONG}}, {}
    )
    _until(world, lambda: invariants.all_ended(world), 120)
    _until(world, lambda: invariants.all_told(world), 60)
    operator.over = True
    _until(world, lambda: all(task.over for task in tasks), 60)
    invariants.check(world)
    life = world.life
    engine = world.engine
    assert engine is not None
    world.engine = None
    schedule.visit(life, engine.close)
    _until(world, lambda: all(task.over for task in life.tasks), 60)


def _mend(world: World) -> None:
    """Repairs everything. Nothing breaks from here on."""
    world.schedule.note("all is mended")
    world.schedule.quiet = True
    world.schedule.trouble += LONGEST_OUTAGE_S
    world.life.steps_left = 0
    world.disk.full = world.disk.gone = world.hosts.down = world.objects.down = world.files.full = False


def _until(world: World, condition: Callable[[], bool], seconds: float) -> None:
    schedule = world.schedule
    deadline = schedule.now + seconds * 1000
    while not condition():
        if world.ledger.violation is not None:
            raise world.ledger.violation
        if schedule.now > deadline:
            waiting = [
                job.name for job in world.ledger.by_id.values() if not job.gone and job.last["status"] == "InProgress"
            ]
            raise AssertionError(f"not within {seconds} s; jobs that have not ended: {waiting}")
        schedule.sleep(0.25)
