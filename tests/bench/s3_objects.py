"""A bucket of very many keys."""

import signal
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench import servers
from bench.s3_clients import Server
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.store import S3Store

LISTED = "listed"
EMPTY_MD5 = "d41d8cd98f00b204e9800998ecf8427e"


def listed_key(number: int) -> str:
    return f"data/{number // 1000:03}/part-{number:06}.bin"


@contextmanager
def moto(keys: int) -> Iterator[tuple[str, psutil.Process]]:
    """moto_server that can fill the bucket LISTED by itself: over HTTP that would take ten minutes."""
    command = [sys.executable, "-m", "bench.s3_objects", str(keys)]
    with servers.started(command, r"Running on (http://\S+)") as server:
        yield server


def fill_moto(server: Server) -> None:
    """Returns when it has."""
    server.process.send_signal(signal.SIGUSR1)
    # It answers nobody meanwhile.
    server.client().create_bucket(Bucket="filled")


def fill_sagelet(data: Path, account: str, keys: int) -> None:
    """Before the server starts: rows, and empty files."""
    data.mkdir(mode=0o700, exist_ok=True)
    store = S3Store(data / "s3", SystemClock())
    store.create_bucket(LISTED, account, "us-east-1")
    store.catalog.put_all(_listed(store, number) for number in range(keys))
    store.close()


def _listed(store: S3Store, number: int) -> StoredObject:
    key = listed_key(number)
    path = store.files.choose_path(LISTED, key)
    (store.files.root / path).touch(mode=0o444)
    return StoredObject(LISTED, key, uuid.uuid4().hex, path, 0, EMPTY_MD5, store.clock.now_ms())


def pages(server: Server, keys: int, count: int) -> tuple[list[float], int]:
    """Seconds of pages at places all over the bucket, and how many keys were in them."""
    s3, seconds, found = server.client(), [], 0
    for number in range(count):
        place: dict[str, str] = {"StartAfter": listed_key(number * (keys // count) - 1)} if number else {}
        sent = time.perf_counter()
        found += s3.list_objects_v2(Bucket=LISTED, **place)["KeyCount"]
        seconds.append(time.perf_counter() - sent)
    return seconds, found


def all_keys(server: Server) -> tuple[float, int]:
    began, listing = time.perf_counter(), server.client().get_paginator("list_objects_v2")
    found = sum(page["KeyCount"] for page in listing.paginate(Bucket=LISTED))
    return time.perf_counter() - began, found


def _serve_moto(arguments: Sequence[str]) -> None:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    from moto.server import main

    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]

    def fill(*_signal: object) -> None:
        backend.create_bucket(LISTED, "us-east-1")
        for number in range(int(arguments[0])):
            backend.put_object(LISTED, listed_key(number), b"")

    signal.signal(signal.SIGUSR1, fill)
    main(["--port", "0"])


if __name__ == "__main__":
    _serve_moto(sys.argv[1:])
