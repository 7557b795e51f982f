"""S3 against moto_server: an object there and back, parts of it, a listing, and an object too large for moto.

Beside it stand the floors: a server that keeps nothing, and what the disk and MD5 cost without a server.
"""

import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from botocore.config import Config

from bench import full_moto, servers, sink, small_objects
from bench.servers import Cost
from bench.small_objects import Plan as SmallPlan
from bench.tables import Bar, Figure, Row, Scale, Table, against_peer, in_turns, percentiles_ms
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.store import S3Store
from support.server import ACCOUNT, SageletProcess, ServerProcess

HEADS = (
    ("object, way", "sagelet s", "moto s", "moto / sagelet", "sagelet CPU s", "moto CPU s", "sagelet MB more",
     "moto MB more", "promised"),
    ("object, way", "sagelet s", "nothing kept s", "cp, sync, md5sum s", "sagelet above nothing kept s", "promised"),
    ("request", "sagelet p50 ms", "p99 ms", "nothing kept p50 ms", "moto p50 ms", "p99 ms", "moto / sagelet",
     "promised"),
    *small_objects.HEADS,
)  # fmt: skip
BUCKET, LISTED = "bench", "listed"
BLOCK = RANGE = 1 << 20
EMPTY_MD5 = "d41d8cd98f00b204e9800998ecf8427e"
#: Promises of moto / sagelet, by the way of an object.
PROMISED = {"put_object, boto3": 4, "get_object, boto3": 4}
#: Promises of the memory's growth for the huge object, and of the time of a range beyond a server that keeps nothing.
MEMORY_MB, RANGE_MS = 64, 2
#: What a put takes beyond such a server, against `cp`, `sync` and `md5sum`; a get against such a server's.
PUT_FLOORS, GET_FLOORS = 1, 1.25
#: The servers of the first rounds.
OURS, MOTO, NOTHING = "sagelet", "moto", "nothing kept"


class Plan(NamedTuple):
    #: An object's name and bytes.
    one: tuple[str, int]
    rounds: int
    #: The object that sagelet alone gets.
    huge: tuple[str, int]
    #: Ranges of one object; moto gets a tenth.
    ranges: int
    keys: int
    pages: int
    small: SmallPlan


PLANS = {
    Scale.FULL: Plan(
        ("1 GiB", 1 << 30), 3, ("10 GiB", 10 << 30), 100, 100_000, 10, small_objects.Plan(3, 2000, 20_000)
    ),
    Scale.SHORT: Plan(("9 MB", 9_000_000), 1, ("20 MB", 20_000_000), 10, 1500, 2, small_objects.Plan(1, 48, 1100)),
}


class Store:
    """A server's S3, as a client sees it that has nothing else to do. The methods return how many bytes went."""

    def __init__(self, server: ServerProcess) -> None:
        self.process = server.process
        config = Config(retries={"total_max_attempts": 1}, read_timeout=600, signature_version="s3v4")
        self.s3 = server.client("s3", config=config)
        self.s3.create_bucket(Bucket=BUCKET)

    def put(self, file: Path) -> int:
        with file.open("rb") as data:
            self.s3.put_object(Bucket=BUCKET, Key="one", Body=data)
        return file.stat().st_size

    def get(self, _file: Path | None = None, **how: str) -> int:
        body = self.s3.get_object(Bucket=BUCKET, Key="one", **how)["Body"]
        return sum(len(block) for block in iter(partial(body.read, BLOCK), b""))

    def bare(self, method: str, operation: str, key: str, file: Path | None = None) -> int:
        """One request with as little around it as possible."""
        url = urlsplit(self.s3.generate_presigned_url(operation, Params={"Bucket": BUCKET, "Key": key}))
        memory, size = memoryview(bytearray(BLOCK)), file.stat().st_size if file else 0
        with ExitStack() as stack:
            connection = HTTPConnection(url.netloc, timeout=600, blocksize=BLOCK)
            stack.callback(connection.close)
            body = stack.enter_context(file.open("rb")) if file else None
            connection.request(method, f"{url.path}?{url.query}", body, {"Content-Length": str(size)})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"{answer.status}: {answer.read()!r}")
            while count := answer.readinto(memory):
                size += count
        return size

    def upload(self, file: Path) -> int:
        self.s3.upload_file(str(file), BUCKET, "parts")
        return file.stat().st_size

    def download(self, file: Path) -> int:
        target = file.with_name("downloaded")
        self.s3.download_file(BUCKET, "parts", str(target))
        size = target.stat().st_size
        target.unlink()
        return size


#: In this order, so that what is read was written before.
WAYS: dict[str, Callable[[Store, Path], int]] = {
    "put_object, boto3": Store.put,
    "get_object, boto3": Store.get,
    "put, bare HTTP": lambda store, file: store.bare("PUT", "put_object", "one", file),
    "get, bare HTTP": lambda store, _file: store.bare("GET", "get_object", "one"),
    "upload_file, boto3": Store.upload,
    "download_file, boto3": Store.download,
}
#: The ways of the huge object.
HUGE: dict[str, Callable[[Store, Path], int]] = {
    "upload_file, boto3": Store.upload,
    "get, bare HTTP": lambda store, _file: store.bare("GET", "get_object", "parts"),
}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan, data, source = PLANS[scale], directory / "data", directory / "source"
    _fill(data, plan.keys)
    _write(source, plan.one[1])
    moto = servers.moto_server(sys.executable, full_moto.__file__, LISTED, str(plan.keys))
    with ExitStack() as stack:
        ours = stack.enter_context(SageletProcess(data, "--runtime", "process"))
        nothing = stack.enter_context(ServerProcess(sys.executable, sink.__file__, str(source)))
        with servers.moto_server() as theirs:
            stores = {OURS: Store(ours), MOTO: Store(theirs), NOTHING: Store(nothing)}
            objects = _objects(plan, stores, source)
            ranges = _range_row(plan, stores)
        with moto as full:
            requests = _requests(plan, ranges, {OURS: stores[OURS], MOTO: Store(full)})
        return [*objects, requests, *small_objects.run(plan.small, ours, nothing, directory)]


def _fill(data: Path, keys: int) -> None:
    """Makes rows and empty files, before sagelet starts."""
    data.mkdir(mode=0o700, exist_ok=True)
    store = S3Store(data / "s3", SystemClock())
    store.create_bucket(LISTED, ACCOUNT, "us-east-1")

    def listed() -> Iterator[StoredObject]:
        for key in map(full_moto.key, range(keys)):
            path = store.files.choose_path(LISTED, key)
            (store.files.root / path).touch(mode=0o444)
            yield StoredObject(LISTED, key, uuid.uuid4().hex, path, 0, EMPTY_MD5, store.clock.now_ms())

    store.catalog.put_all(listed())
    store.close()


# --- objects ----------------------------------------------------------------------------------------------------------

Transfer = tuple[int, Cost]
#: The run without a server, and the ways that bring bytes to S3.
DISK = ("cp, sync, md5sum", "")
PUTS = ("put_object, boto3", "put, bare HTTP", "upload_file, boto3")


def _write(source: Path, size: int) -> None:
    with source.open("wb") as out:
        for left in range(size, 0, -BLOCK):
            out.write(os.urandom(min(left, BLOCK)))


def _objects(plan: Plan, stores: dict[str, Store], source: Path) -> list[Table]:
    name, size = plan.one
    for server in (OURS, MOTO):
        stores[server].s3.put_object(Bucket=BUCKET, Key="one", Body=b"warm up")
        stores[server].get()
    runs: dict[tuple[str, str], Callable[[], Transfer]] = {
        (way, server): partial(_moved, store, WAYS[way], source) for way in WAYS for server, store in stores.items()
    }
    found = in_turns(plan.rounds, {**runs, DISK: partial(_on_disk, source)})
    moved = [one for way in WAYS for one in found[way, OURS]]
    rows = [_object_row(name, way, found[way, OURS], found[way, MOTO]) for way in WAYS]
    huge = _huge(plan, stores[OURS], source.parent)
    conditions = (
        f"Medians of {plan.rounds} rounds in turns. Bare HTTP is one request of a process that sends 1 MiB at a time "
        "and reads into one piece of memory; upload_file and download_file move parts. CPU is the server's, a "
        f"transfer; MB more is the most that its memory grew by. sagelet alone gets {plan.huge[0]}, once"
        f"{'' if huge else ' (left out: the disk has no room)'}: moto would need twice that in memory."
    )
    done, planned = sum(count for count, _ in [*moved, *huge.values()]), size * len(moved) + plan.huge[1] * len(huge)
    huge_rows = [_huge_row(plan.huge[0], way, cost) for way, (_, cost) in huge.items()]
    counts = {"bytes": (done, planned)}
    return [Table("Objects, to S3 and back", HEADS[0], [*rows, *huge_rows], conditions, counts), _floors(plan, found)]


def _floors(plan: Plan, found: dict[tuple[str, str], list[Transfer]]) -> Table:
    """The same transfers beside what the client, the disk and MD5 take without sagelet."""
    disk = Figure.of([cost.seconds for _, cost in found[DISK]])
    rows: list[Row] = []
    for way in WAYS:
        ours, nothing = ([cost.seconds for _, cost in found[way, server]] for server in (OURS, NOTHING))
        figures = [Figure.of(ours), Figure.of(nothing)]
        above = Figure.of([one - other for one, other in zip(ours, nothing, strict=True)])
        if way in PUTS:
            promised = Bar("above / cp, sync, md5sum", above.over(disk), PUT_FLOORS, at_most=True)
        else:
            promised = Bar("sagelet / nothing kept", figures[0].over(figures[1]), GET_FLOORS, at_most=True)
        rows.append((f"{plan.one[0]}, {way}", *figures, disk if way in PUTS else "", above, promised))
    conditions = (
        "The transfers of the table above, in the same rounds. Nothing kept: a server that forgets what it reads and "
        "sends a file as it is, so its time is the client's own. The file was copied by `cp`, brought to the disk by "
        "`sync` and read by `md5sum`, one after another."
    )
    moved = [one for way in WAYS for one in found[way, NOTHING]]
    counts = {"bytes": (sum(count for count, _ in moved), plan.one[1] * len(moved))}
    return Table("Objects beside the floors", HEADS[1], rows, conditions, counts)


def _on_disk(source: Path) -> Transfer:
    return source.stat().st_size, Cost(small_objects.copied_and_summed(source))


def _moved(store: Store, work: Callable[[Store, Path], int], file: Path) -> Transfer:
    with servers.watched(store.process) as cost:
        size = work(store, file)
    return size, cost


def _object_row(name: str, way: str, ours: list[Transfer], theirs: list[Transfer]) -> Row:
    both = [[cost for _, cost in transfers] for transfers in (ours, theirs)]
    times = [Figure.of([cost.seconds for cost in costs]) for costs in both]
    cpu = [median(cost.cpu for cost in costs) for costs in both]
    growth = [max(cost.growth_mb for cost in costs) for costs in both]
    ratio = times[1].over(times[0])
    promised = Bar("moto / sagelet", ratio, PROMISED[way]) if way in PROMISED else ""
    return f"{name}, {way}", *times, against_peer(ratio), *cpu, *growth, promised


def _huge(plan: Plan, store: Store, directory: Path) -> dict[str, Transfer]:
    """One transfer each way. Empty if the disk has no room."""
    size, source = plan.huge[1], directory / "huge"
    if shutil.disk_usage(directory).free < size * 3 // 2:
        return {}
    with source.open("wb") as out:
        out.truncate(size)
    return {way: _moved(store, work, source) for way, work in HUGE.items()}


def _huge_row(name: str, way: str, cost: Cost) -> Row:
    promised = Bar("MB more", cost.growth_mb, MEMORY_MB, at_most=True)
    return f"{name}, {way}", cost.seconds, "", "", cost.cpu, "", cost.growth_mb, "", promised


# --- requests ---------------------------------------------------------------------------------------------------------


def _range_row(plan: Plan, stores: dict[str, Store]) -> Row:
    """sagelet and the server that keeps nothing take turns. moto gets a tenth of the ranges."""
    name, size = plan.one
    seconds: dict[str, list[float]] = {server: [] for server in stores}
    for number in range(plan.ranges):
        place = (size - RANGE) * number // plan.ranges
        for server, store in stores.items():
            if server != MOTO or not number % 10:
                seconds[server].append(_timed(partial(store.get, Range=f"bytes={place}-{place + RANGE - 1}"))[1])
    return _request_row(f"1 MB of {name}, get_object", seconds, RANGE_MS)


def _requests(plan: Plan, ranges: Row, stores: dict[str, Store]) -> Table:
    def page(store: Store, number: int) -> int:
        place = {"StartAfter": full_moto.key(number * (plan.keys // plan.pages) - 1)} if number else {}
        return int(store.s3.list_objects_v2(Bucket=LISTED, **place)["KeyCount"])

    def all_keys() -> int:
        pages = stores[OURS].s3.get_paginator("list_objects_v2").paginate(Bucket=LISTED)
        return sum(one["KeyCount"] for one in pages)

    keys = dict.fromkeys(stores, 0)
    seconds: dict[str, list[float]] = {name: [] for name in stores}
    for number in range(plan.pages):
        for name, store in stores.items():
            count, took = _timed(partial(page, store, number))
            keys[name] += count
            seconds[name].append(took)
    every, took = _timed(all_keys)
    conditions = (
        f"By boto3, one after another, at places all over the object or the bucket: {plan.ranges} ranges (moto: "
        f"{plan.ranges // 10}), {plan.pages} pages of 1,000. All keys, page by page, take sagelet {took:.1f} s."
    )
    rows = [ranges, _request_row(f"a page of {plan.keys:,} keys, list_objects_v2", seconds)]
    counts = {"keys": (every, plan.keys), "keys in pages": (keys[OURS], keys[MOTO])}
    return Table("Single requests", HEADS[2], rows, conditions, counts)


def _timed(work: Callable[[], int]) -> tuple[int, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _request_row(name: str, seconds: dict[str, list[float]], most_ms: float = 0) -> Row:
    ours, theirs = (percentiles_ms(seconds[server], 50, 99) for server in (OURS, MOTO))
    floor = percentiles_ms(seconds[NOTHING], 50) if NOTHING in seconds else []
    promised = Bar("p50 ms above nothing kept", ours[0] - floor[0], most_ms, at_most=True) if floor else ""
    return name, *ours, *(floor or [""]), *theirs, theirs[0] / ours[0], promised
