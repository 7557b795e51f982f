"""One history of the object store: concurrent clients, a server that dies and starts, and the rules at the end."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

# The store imports this for its first checksum, and the import must not happen in a history.
import awscrt.checksums  # noqa: F401

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.s3.store import S3Store
from support.s3_histories import linearize
from support.s3_histories.clients import BUCKETS, Client
from support.s3_histories.world import World, a_world

#: Lines shown of a failed history's trace.
LAST_LINES = 80


class Failed(AssertionError):
    """A history broke a rule. The message says how to repeat it."""


class Operator:
    """Starts the server whenever it is gone. Each of the first lives ends at a step that the seed chooses."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._crashes = world.chance.choice([0, 0, 1, 2, 4])
        self.over = False

    def run(self) -> None:
        while not self.over:
            if self._world.face is None:
                steps = 0
                if self._crashes and not self._world.schedule.quiet:
                    self._crashes -= 1
                    steps = int(2 ** self._world.chance.uniform(1, 10))
                self._world.boot(steps)
            self._world.schedule.sleep(0.02)


def run(seed: int, root: Path, theme: str | None = None) -> str:
    """Runs the history of a seed in a new directory. Returns its trace. Raises Failed.

    `theme` replaces the seed's own theme (World.theme).
    """
    with a_world(seed, root) as world:
        world.theme = theme or world.theme
        try:
            world.schedule.run("main", lambda: _main(world))
            known = [one for one in world.log.operations if one.kind != "begin" or one.arguments["id"] is not None]
            linearize.check(known)
        except Exception as error:
            raise Failed(
                f"seed {seed}: {type(error).__name__}: {error}\n{_trace(world, LAST_LINES)}\n"
                f"Repeat it: SAGELET_SEED={seed} pytest tests/reliability/test_s3_histories.py"
            ) from error
        return _trace(world)


def run_all(seeds: Iterable[int], theme: str | None = None) -> Iterator[tuple[int, str]]:
    """Yields each seed with the trace of its history. Files are in memory if the machine has such a file system."""
    memory = Path("/dev/shm")
    gc.collect()
    # A generator collected in the middle of a history would run its `finally` at a moment that no seed determines.
    gc.freeze()
    gc.disable()
    try:
        with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
            # Facts about SQLite that a process finds out once. A history that did so would differ from its seed's.
            for _ in ("made", "opened"):
                S3Store(Path(directory, "first"), SystemClock()).close()
            root = Path(directory, "s3")
            for number, seed in enumerate(seeds):
                yield seed, run(seed, root, theme)
                shutil.rmtree(root)
                if number % 50 == 49:
                    gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()


def _trace(world: World, last: int = 0) -> str:
    return "\n".join(world.schedule.trace[-last:]).replace(str(world.root), "ROOT")


def _main(world: World) -> None:
    schedule, chance = world.schedule, world.chance
    operator = Operator(world)
    watch = schedule.spawn("operator", operator.run, None)
    first = Client(world, "0", 0)
    _until(world, lambda: world.face is not None)
    first.create_bucket(BUCKETS[0])
    names = "wxyz"[: chance.choice([2, 3, 3, 4])]
    clients = [schedule.spawn(f"client-{name}", Client(world, name, chance.randint(4, 16)).run, None) for name in names]
    _until(world, lambda: all(client.over for client in clients))
    schedule.quiet = True
    world.life.steps_left = 0
    _until(world, lambda: world.face is not None)
    # Nothing may be left over if nothing went wrong, either.
    world.check_files(recovered=not world.deaths and not schedule.trouble)
    _look(world)
    # Everything must be there for the next server, too.
    schedule.kill(world.life)
    _until(world, lambda: world.face is not None)
    _look(world)
    _finish(world)
    operator.over = True
    _until(world, lambda: watch.over)
    world.check_files(recovered=True)


def _look(world: World) -> None:
    """Reads everything that there is."""
    client = Client(world, "0", 0)
    for bucket in BUCKETS:
        for key, _ in client.list_objects(bucket):
            client.get(bucket, key)
        for upload in client.list_uploads(bucket):
            client.list_parts(upload)


def _finish(world: World) -> None:
    """Completes all uploads with parts."""
    client = Client(world, "0", 0)
    for bucket in BUCKETS:
        for upload in client.list_uploads(bucket):
            if parts := client.list_parts(upload):
                client.complete(upload, parts, {})
                client.get(bucket, upload.key)


def _until(world: World, condition: object) -> None:
    assert callable(condition)
    deadline = world.schedule.now + 600_000
    while not condition():
        assert world.schedule.now < deadline, "not within 600 s"
        world.schedule.sleep(0.02)
