"""A data directory, the server that starts and dies on it, and what its clients know."""

import errno
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from sagelet_api.protocol.aws_errors import AwsError
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.s3 import multipart
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.errors import DamagedObject, DiskFull
from sagelet_engine.s3.records import Upload
from sagelet_engine.s3.store import S3Store
from support.histories import files, threads
from support.histories.schedule import Crashed, Life, Schedule
from support.s3_histories import control
from support.s3_histories.face import Face
from support.s3_histories.model import Contents
from support.s3_histories.operations import Log, Operation

T = TypeVar("T")
Row = tuple[Any, ...]

BEGINNING_MS = 1_700_000_000_000
#: Statuses of refusals. A higher status is the server's fault, which must have a cause outside.
REFUSED = range(400, 500)


class Violation(AssertionError):
    """A rule was broken."""


@dataclass
class Known:
    """An upload known to clients."""

    id: str
    bucket: str
    key: str
    #: All ETags that each number ever had, oldest first.
    parts: dict[int, list[str]] = field(default_factory=dict)


class Clock:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def now_ms(self) -> int:
        return BEGINNING_MS + self._schedule.now


class World:
    def __init__(self, seed: int, root: Path) -> None:
        self.schedule = Schedule(seed)
        self.chance = self.schedule.random
        self.root = root
        #: The subject of most calls: `all`, one `key`, or one `upload` at a time.
        self.theme = self.chance.choice(["all", "key", "upload"])
        self.machine = control.Machine(self.schedule, str(root))
        self.log = Log()
        self.contents = Contents()
        self.uploads: list[Known] = []
        #: The current server's handlers, or None if no server runs.
        self.face: Face | None = None
        self.life = Life(0)
        #: Other processes that have the store open.
        self.others = 0
        self.deaths = 0
        self._lives = 0
        self._stores: dict[int, list[S3Store]] = {}
        #: Ids of uploads that began, by the client that asked. It may never get the answer.
        self._begun: dict[str, str] = {}
        self.schedule.on_death = self._died

    # --- processes --------------------------------------------------------------------------------------------

    def open_store(self) -> S3Store:
        """Opens the store in the process of the current thread."""
        life = self.schedule.current.life if self.schedule.current else None
        assert life is not None
        store = S3Store(self.root, Clock(self.schedule))
        self._stores.setdefault(life.number, []).append(store)
        return store

    def process(self, steps: int) -> Life:
        """Makes a process that dies after so many steps, or never if 0."""
        self._lives += 1
        life = Life(self._lives)
        life.steps_left = steps
        return life

    def boot(self, steps: int) -> None:
        """Starts the next server. It may be dead when this returns."""
        life = self.life = self.process(steps)

        def start() -> None:
            alone = not self.others
            store = self.open_store()
            store.recover()
            if alone and not self.others:
                self.check_files(recovered=True)
            self.face = Face(self.schedule, store)

        try:
            self.schedule.visit(life, start)
        except Crashed:
            pass
        except (OSError, StoreUnavailable, DiskFull) as error:
            self.schedule.note("no start:", error)
            self._closed(life)

    def _died(self, life: Life) -> None:
        self.schedule.note("process", life.number, "died")
        self.deaths += 1
        self._closed(life)

    def _closed(self, life: Life) -> None:
        life.dead = True
        if life is self.life:
            self.face = None
        self.machine.died(life)
        for store in self._stores.pop(life.number, []):
            for file in (store._lock, store._imports):
                file.close()

    def leave(self, life: Life) -> None:
        """Ends a process in an orderly way."""
        for store in self._stores.pop(life.number, []):
            store.close()
        self.machine.died(life)

    def end(self) -> None:
        for number in list(self._stores):
            for store in self._stores.pop(number):
                for file in (store._lock, store._imports):
                    file.close()
        self.machine.end()

    # --- what clients do --------------------------------------------------------------------------------------

    def ask(self, operations: list[Operation], work: Callable[[Face], T]) -> T | None:
        """Makes a request and notes the answer. Returns the answer, or None if there was none or it was an error."""
        face, life = self.face, self.life
        assert face is not None
        return self.attempt(operations, life, lambda: work(face))

    def attempt(self, operations: list[Operation], life: Life, work: Callable[[], T]) -> T | None:
        returns = self.log.returns
        try:
            answer = self.schedule.visit(life, work)
        except Crashed:
            returns(*operations, known=False)
            self.schedule.note(*operations, "and nobody answered")
            self.schedule.sleep(0.01)
            return None
        except AwsError as error:
            known = error.status in REFUSED
            if not known:
                self._excuse(error)
            returns(*operations, known=known, error=error.code)
            self.schedule.note(*operations, "" if known else repr(error.__cause__))
            return None
        except (OSError, StoreUnavailable, DiskFull) as error:
            self._excuse(error)
            returns(*operations, known=False)
            self.schedule.note(*operations, "failed:", repr(error))
            return None
        returns(*operations, known=True, value=answer)
        self.schedule.note(*operations)
        return answer

    def _excuse(self, error: BaseException) -> None:
        """Accepts an error that comes from the history's own faults. Any other error is the store's own."""
        chain: BaseException | None = error
        while chain is not None:
            if isinstance(chain, DamagedObject):
                break
            if isinstance(chain, sqlite3.OperationalError):
                return
            if isinstance(chain, OSError) and chain.errno in (errno.ENOSPC, errno.EIO):
                return
            chain = chain.__cause__
        raise Violation(f"an error that nothing outside explains: {error!r} from {error.__cause__!r}") from error

    def begun(self) -> str | None:
        """Returns the id of the upload that the current client began last, even if it got no answer."""
        assert self.schedule.current is not None
        return self._begun.pop(self.schedule.current.name, None)

    def note_begin(self, upload: Upload) -> None:
        assert self.schedule.current is not None
        self._begun[self.schedule.current.name] = upload.id

    # --- the disk ---------------------------------------------------------------------------------------------

    def check_files(self, *, recovered: bool) -> None:
        """Checks that catalogue and files agree. `recovered`: nothing is left over, either. No client may be active."""
        with self.machine.files.beside():
            problems = list(disagreements(self.root, self.contents, recovered=recovered))
        if problems:
            raise Violation("; ".join(problems))

    def check_export(self, place: Path) -> None:
        """Checks that the bytes of all objects and parts are there, or nothing if a fault made the export fail."""
        if not (place / "sagelet.db").exists():
            return
        files = place / "files"
        problems = list(_wrong(*_rows(place / "catalog.db"), self.contents, lambda file_id, _: files / file_id))
        if problems:
            raise Violation(f"exported: {'; '.join(problems)}")


def disagreements(root: Path, contents: Contents, *, recovered: bool) -> Iterator[str]:
    """Yields the differences between the catalogue and the files."""
    objects, parts = _rows(root / ".catalog.db")
    staged = {path.name for path in (root / ".staged").iterdir()}

    def place(file_id: str, path: str | None) -> Path:
        return root / ".staged" / file_id if path is None or file_id in staged else root / path

    yield from _wrong(objects, parts, contents, place)
    if recovered:
        yield from _left_over(root, staged, objects, parts)


def _rows(catalog: Path) -> tuple[list[Row], list[Row]]:
    """Returns the rows of objects and those of parts."""
    db = sqlite3.connect(catalog)
    try:
        objects = db.execute("SELECT bucket, key, file_id, path, size, etag FROM objects").fetchall()
        parts = db.execute(
            "SELECT u.file_id, u.slot, p.number, p.size, p.etag, p.file_id FROM uploads u LEFT JOIN parts p"
            " ON u.id = p.upload_id"
        ).fetchall()
    finally:
        db.close()
    return objects, parts


def _wrong(
    objects: list[Row], parts: list[Row], contents: Contents, place: Callable[[str, str | None], Path]
) -> Iterator[str]:
    """Yields objects and parts whose bytes have changed. `place` returns a file's path."""
    for bucket, key, file_id, path, size, etag in objects:
        found = _bytes(place(file_id, path))
        if len(found or b"") != size or found != contents[etag]:
            yield f"{bucket}/{key.decode()} ({etag}) has {found!r} instead of {contents[etag]!r}"
    for workspace, slot, number, size, etag, own in parts:
        if number is None:
            continue
        begin = 0 if own else (number - 1) * (slot or 0)
        found = (_bytes(place(own or workspace, None)) or b"")[begin : begin + size]
        if found != contents[etag]:
            yield f"part {number} ({etag}) has {found!r} instead of {contents[etag]!r}"


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _left_over(root: Path, staged: set[str], objects: list[Row], parts: list[Row]) -> Iterator[str]:
    uploads = {name for row in parts for name in (row[0], row[5]) if name}
    for name in sorted(staged - uploads):
        yield f"{name} is staged, and no upload's"
    paths = {row[3] for row in objects}
    for place in sorted(path for path in root.rglob("*") if path.is_file()):
        path = place.relative_to(root).as_posix()
        if path not in paths and not path.startswith((".staged/", ".catalog.db", ".lock", ".imports")):
            yield f"{path} is no object's"


@contextmanager
def a_world(seed: int, root: Path) -> Iterator[World]:
    """Yields a world whose store is under control during the block."""
    world = World(seed, root)
    add: Any = Catalog.add_upload

    def add_upload(catalog: Catalog, upload: Upload) -> None:
        world.note_begin(upload)
        add(catalog, upload)

    with ExitStack() as stack:
        stack.enter_context(threads.under_control(world.schedule))
        stack.enter_context(control.under_control(world.machine))
        stack.enter_context(files.under_control(world.machine.files))
        stack.enter_context(mock.patch.object(multipart, "MIN_PART", 1))
        stack.enter_context(mock.patch.object(Catalog, "add_upload", add_upload))
        try:
            yield world
        finally:
            with suppress(OSError):
                world.end()
