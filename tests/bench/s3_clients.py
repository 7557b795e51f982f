"""One object at a time to and from an S3 server: by boto3, and over HTTP with as little around it as can be."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import boto3
import psutil
from botocore.config import Config

from bench import servers

BUCKET = "bench"
#: Neither server checks it; sagelet wants to see one.
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=123456789012/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)
BLOCK = 1 << 20
#: Seconds between two looks at a server's memory.
LOOK = 0.01


@dataclass
class Server:
    name: str
    endpoint: str
    process: psutil.Process

    def client(self) -> Any:
        return boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id="123456789012",
            aws_secret_access_key="any", config=Config(retries={"total_max_attempts": 1}, read_timeout=600),
        )  # fmt: skip


@dataclass
class Transfers:
    """Of one kind, with one server."""

    seconds: list[float] = field(default_factory=list)
    #: CPU seconds of the server, each.
    cpu: list[float] = field(default_factory=list)
    #: MiB by which the server's memory grew at most.
    growth: float = 0.0
    bytes: int = 0

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def spread(self) -> str:
        return f"{min(self.seconds):.2f} to {max(self.seconds):.2f}"

    def add(self, server: Server, work: Callable[[], int]) -> None:
        """`work` returns how many bytes went."""
        servers.rest(server.process)
        before = servers.cpu(server.process)
        with _watched(server.process) as growth:
            began = time.perf_counter()
            self.bytes += work()
            self.seconds.append(time.perf_counter() - began)
        servers.rest(server.process)
        self.cpu.append(servers.cpu(server.process) - before)
        self.growth = max(self.growth, *growth)


@contextmanager
def _watched(process: psutil.Process) -> Iterator[list[float]]:
    """MiB above what it had before; all of it is there when the block has ended."""
    over, before, growth = threading.Event(), process.memory_info().rss, [0.0]

    def look() -> None:
        while not over.wait(LOOK):
            growth[0] = max(growth[0], (process.memory_info().rss - before) / 2**20)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield growth
    finally:
        over.set()
        watcher.join()


def boto3_put(s3: Any, key: str, file: Path) -> int:
    with file.open("rb") as data:
        s3.put_object(Bucket=BUCKET, Key=key, Body=data)
    return file.stat().st_size


def boto3_get(s3: Any, key: str, **how: str) -> int:
    body, size = s3.get_object(Bucket=BUCKET, Key=key, **how)["Body"], 0
    while block := body.read(BLOCK):
        size += len(block)
    return size


def bare_put(server: Server, key: str, file: Path) -> int:
    """The kernel sends the file: all that this process does is wait."""
    size = file.stat().st_size
    with closing(_connection(server)) as connection, file.open("rb") as data:
        connection.putrequest("PUT", f"/{BUCKET}/{key}")
        connection.putheader("Authorization", AUTHORIZATION)
        connection.putheader("Content-Length", str(size))
        connection.endheaders()
        connection.sock.sendfile(data)
        _check(connection.getresponse())
    return size


def bare_get(server: Server, key: str) -> int:
    memory, size = memoryview(bytearray(BLOCK)), 0
    with closing(_connection(server)) as connection:
        connection.request("GET", f"/{BUCKET}/{key}", headers={"Authorization": AUTHORIZATION})
        answer = connection.getresponse()
        _check(answer)
        while count := answer.readinto(memory):
            size += count
    return size


def _connection(server: Server) -> HTTPConnection:
    return HTTPConnection(urlsplit(server.endpoint).netloc, timeout=600)


def _check(answer: Any) -> None:
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {answer.read()}")


def disk_seconds(file: Path, size: int) -> float:
    """To write so many bytes to a new file and have them on the disk."""
    block = bytes(BLOCK)
    began = time.perf_counter()
    with file.open("wb", buffering=0) as out:
        for _ in range(size // BLOCK):
            out.write(block)
        os.fsync(out.fileno())
    took = time.perf_counter() - began
    file.unlink()
    return took


def md5_seconds(size: int) -> float:
    """Of one core, for so many bytes."""
    block, digest = os.urandom(BLOCK), hashlib.md5(usedforsecurity=False)
    began = time.thread_time()
    for _ in range(size // BLOCK):
        digest.update(block)
    return time.thread_time() - began
