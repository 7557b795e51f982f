"""S3 against moto_server, and against a server that keeps nothing: what is left of its time is the client's."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import s3_clients, s3_objects, servers
from bench.load import Outcome
from bench.s3_clients import BUCKET, Server, Transfers
from bench.tables import Bar, Scale, Table

ACCOUNT = "123456789012"
RANGE = 1 << 20
#: The size that DESIGN's bars are about.
BAR = "1 GiB"


@dataclass(frozen=True)
class Plan:
    #: Bytes and rounds, by name.
    sizes: dict[str, tuple[int, int]]
    #: Bytes of the object that sagelet alone gets.
    huge: tuple[str, int]
    ranges: int
    keys: int
    pages: int


PLANS = {
    Scale.FULL: Plan({BAR: (1 << 30, 3)}, ("10 GiB", 10 << 30), 100, 100_000, 10),
    Scale.SHORT: Plan({"9 MB": (9_000_000, 1)}, ("20 MB", 20_000_000), 4, 1500, 2),
}

Way = Callable[[Server, Any, Path], int]


def _upload(_server: Server, s3: Any, file: Path) -> int:
    s3.upload_file(str(file), BUCKET, "parts")
    return file.stat().st_size


def _download(_server: Server, s3: Any, file: Path) -> int:
    target = file.with_name("downloaded")
    s3.download_file(BUCKET, "parts", str(target))
    size = target.stat().st_size
    target.unlink()
    return size


#: In this order, so that what is read was written before.
WAYS: dict[str, Way] = {
    "put, boto3": lambda _server, s3, file: s3_clients.boto3_put(s3, "one", file),
    "get, boto3": lambda _server, s3, _file: s3_clients.boto3_get(s3, "one"),
    "put, bare HTTP": lambda server, _s3, file: s3_clients.bare_put(server, "one", file),
    "get, bare HTTP": lambda server, _s3, _file: s3_clients.bare_get(server, "one"),
    "upload_file, boto3": _upload,
    "download_file, boto3": _download,
}


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with tempfile.TemporaryDirectory(prefix="bench-s3-") as name, ExitStack() as stack:
        directory = Path(name)
        data = directory / "data"
        s3_objects.fill_sagelet(data, ACCOUNT, plan.keys)
        largest = _file(directory / "source", max(size for size, _ in plan.sizes.values()))
        theirs = Server("moto", *stack.enter_context(s3_objects.moto(plan.keys)))
        ours = Server("sagelet", *stack.enter_context(servers.sagelet(data, "--runtime", "process")))
        sizes = [str(size) for size, _ in plan.sizes.values()]
        null = [sys.executable, "-m", "bench.null_server", str(largest), *sizes]
        floor = Server("null", *stack.enter_context(servers.started(null, r"ready: (http://\S+)")))
        for server in (theirs, ours):
            _warm_up(server)
        whole = _whole(plan, (theirs, ours, floor), largest)
        return [
            _transfers(plan, whole, largest),
            _ranges(plan, (theirs, ours)),
            _huge(plan, ours, directory),
            _listing(plan, theirs, ours),
        ]


def _file(path: Path, size: int) -> Path:
    with path.open("wb") as out:
        for left in range(size, 0, -s3_clients.BLOCK):
            out.write(os.urandom(min(left, s3_clients.BLOCK)))
    return path


def _warm_up(server: Server) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key="warm", Body=b"x" * s3_clients.BLOCK)
    s3.get_object(Bucket=BUCKET, Key="warm")["Body"].read()
    servers.rest(server.process)


# --- one object ------------------------------------------------------------------------------------------------

Whole = dict[tuple[str, str], dict[str, Transfers]]


def _whole(plan: Plan, three: tuple[Server, ...], source: Path) -> Whole:
    """By size and way, each server's transfers; the servers in turns."""
    found: Whole = {}
    for size, (bytes_, rounds) in plan.sizes.items():
        file = source if source.stat().st_size == bytes_ else _file(source.with_name("smaller"), bytes_)
        clients = {server.name: server.client() for server in three}
        for number in range(rounds):
            for way, work in WAYS.items():
                for server in three[:: -1 if number % 2 else 1]:
                    transfers = found.setdefault((size, way), {}).setdefault(server.name, Transfers())
                    transfers.add(server, partial(work, server, clients[server.name], file))
    return found


def _transfers(plan: Plan, whole: Whole, source: Path) -> Table:
    # Of the server that keeps nothing, too: a floor of other sizes would be none.
    sent = sum(transfers[server].bytes for transfers in whole.values() for server in ("sagelet", "null"))
    planned = sum(size * rounds for size, rounds in plan.sizes.values()) * len(WAYS) * 2
    return Table(
        "One object, to S3 and back",
        ("object", "way", "moto s", "moto, min to max", "sagelet s", "sagelet, min to max", "nothing s",
         "moto / sagelet", "moto / nothing", "moto CPU s", "sagelet CPU s", "moto MB more", "sagelet MB more"),
        tuple(_transfer_row(*name, by_server) for name, by_server in whole.items()),
        _conditions(source),
        tuple(_transfer_bars(whole)),
        {"bytes there and back": sent, "bytes there and back planned": planned},
    )  # fmt: skip


def _transfer_row(size: str, way: str, found: dict[str, Transfers]) -> tuple[str | float, ...]:
    theirs, ours, floor = found["moto"], found["sagelet"], found["null"]
    return (
        size, way, theirs.median, theirs.spread, ours.median, ours.spread, floor.median, theirs.median / ours.median,
        theirs.median / floor.median, sum(theirs.cpu) / len(theirs.cpu), sum(ours.cpu) / len(ours.cpu), theirs.growth,
        ours.growth,
    )  # fmt: skip


def _transfer_bars(whole: Whole) -> Iterator[Bar]:
    growth = 0.0
    for (size, way), found in whole.items():
        if size == BAR:
            growth = max(growth, found["sagelet"].growth)
            if not way.endswith("_file, boto3"):
                yield Bar(f"{way}, {BAR}, moto / sagelet", found["moto"].median / found["sagelet"].median, 4)
    if growth:
        yield Bar(f"growth of the server's memory at {BAR}, MB", growth, 64, at_most=True)


def _conditions(source: Path) -> str:
    size = source.stat().st_size
    disk = sorted(s3_clients.disk_seconds(source.with_name("disk"), size) for _ in range(3))
    digest = s3_clients.md5_seconds(size)
    return (
        "Medians; the servers in turns. **Nothing** is a server that forgets what it is sent and sends a file as it "
        "is: its seconds are the client's and the network's, and `moto / nothing` is what no server could pass. Bare "
        "HTTP is one request from a process that hands the file to the kernel, or reads into one piece of memory. "
        "`_file` are boto3's transfers in parts. CPU is the server's, a transfer; MB more is the most that its memory "
        f"grew by in one. For {size >> 20:,} MiB this disk takes {disk[1]:.2f} s with fsync ({disk[0]:.2f} to "
        f"{disk[-1]:.2f}), and one core {digest:.2f} s for the MD5, which S3 calls the ETag and which cannot be "
        "divided: no put is faster than that. sagelet has the bytes on the disk before it answers; moto keeps them in "
        "memory and in a temporary file and waits for no disk."
    )


# --- ranges, a huge object, listings ---------------------------------------------------------------------------


def _ranges(plan: Plan, pair: tuple[Server, ...]) -> Table:
    name, (size, _) = list(plan.sizes.items())[-1]
    found: dict[str, list[float]] = {}
    for server in pair:
        s3, count = server.client(), plan.ranges if server.name == "sagelet" else max(1, plan.ranges // 10)
        for number in range(count):
            first = (size - RANGE) * number // count
            sent = time.perf_counter()
            s3_clients.boto3_get(s3, "one", Range=f"bytes={first}-{first + RANGE - 1}")
            found.setdefault(server.name, []).append(time.perf_counter() - sent)
    rows = {server: Outcome(seconds, sum(seconds)) for server, seconds in found.items()}
    ratio = rows["moto"].percentile(50) / rows["sagelet"].percentile(50)
    return Table(
        f"1 MB out of {name}",
        ("server", "ranges", "p50 ms", "p99 ms", "moto / sagelet"),
        tuple(
            (server, len(one.seconds), one.percentile(50), one.percentile(99), ratio if server == "sagelet" else "")
            for server, one in rows.items()
        ),
        "get_object by boto3, one after another, from places all over the object.",
        (Bar(f"1 MB range of {name}, p50 ms", rows["sagelet"].percentile(50), 5, at_most=True),),
        {"ranges": len(rows["sagelet"].seconds), "ranges planned": plan.ranges},
    )


def _huge(plan: Plan, server: Server, directory: Path) -> Table:
    name, size = plan.huge
    title = f"{name}, sagelet alone"
    columns = ("way", "s", "MiB/s", "CPU s", "MB more")
    conditions = (
        "One transfer each: the upload in parts by boto3's upload_file, of zeros; the download over bare HTTP. moto "
        "would need twice the object's size in memory for it."
    )
    free = shutil.disk_usage(directory).free
    if free < size * 3 // 2:
        return Table(title, columns, (("left out: the disk has no room", "", "", "", ""),), conditions)
    source = directory / "huge"
    with source.open("wb") as out:
        out.truncate(size)
    s3 = server.client()
    found = {"upload_file, boto3": Transfers(), "get, bare HTTP": Transfers()}
    found["upload_file, boto3"].add(server, lambda: _upload(server, s3, source))
    found["get, bare HTTP"].add(server, lambda: s3_clients.bare_get(server, "parts"))
    s3.delete_object(Bucket=BUCKET, Key="parts")
    growth = max(one.growth for one in found.values())
    return Table(
        title,
        columns,
        tuple((way, one.median, size / 2**20 / one.median, one.cpu[0], one.growth) for way, one in found.items()),
        conditions,
        (Bar(f"growth of the server's memory at {name}, MB", growth, 64, at_most=True),),
        {"bytes of it": sum(one.bytes for one in found.values()), "bytes of it planned": 2 * size},
    )


def _listing(plan: Plan, theirs: Server, ours: Server) -> Table:
    s3_objects.fill_moto(theirs)
    found = {server.name: s3_objects.pages(server, plan.keys, plan.pages) for server in (theirs, ours)}
    took, keys = s3_objects.all_keys(ours)
    outcomes = {server: Outcome(seconds, sum(seconds)) for server, (seconds, _) in found.items()}
    ratio = outcomes["moto"].percentile(50) / outcomes["sagelet"].percentile(50)
    return Table(
        f"Listing {plan.keys:,} keys",
        ("server", "pages", "p50 ms a page", "p99 ms a page", "moto / sagelet", "all keys s"),
        tuple(
            (server, len(one.seconds), one.percentile(50), one.percentile(99), ratio if server == "sagelet" else "",
             took if server == "sagelet" else "")
            for server, one in outcomes.items()
        ),
        "list_objects_v2 by boto3, pages of 1,000 at places all over the bucket (StartAfter); then all of it, page by "
        "page, from sagelet. Both buckets were filled without HTTP: moto's by its own process, sagelet's before it "
        "started.",
        counts={
            "keys listed": keys,
            "keys listed planned": plan.keys,
            "keys in pages": found["sagelet"][1],
            "keys in pages planned": found["moto"][1],
        },
    )  # fmt: skip
