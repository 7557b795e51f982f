"""`make bench-s3`: S3 of sagelet against moto_server, one run on one machine; the ratios mean something, not the times.

Prints a table and, with a file name as argument, writes the figures there as JSON.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import boto3
import psutil
from botocore.config import Config

SIZE = int(os.environ.get("BENCH_S3_BYTES", str(1 << 30)))
SMALL = 1000
RANGE = 1 << 20
BINARIES = Path(sys.executable).parent

Figures = dict[str, float]


@contextmanager
def started(command: list[str], pattern: str) -> Iterator[tuple[str, psutil.Process]]:
    """A server, its endpoint as the pattern finds it in the output, and its process."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        match = next(found for line in process.stdout if (found := re.search(pattern, line)))
        # moto_server prints a line a request, and stands still when nobody reads them.
        threading.Thread(target=lambda: list(process.stdout or ()), daemon=True).start()
        yield match[1], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def timed(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def drain(body: Any) -> None:
    while body.read(1 << 20):
        pass


def bare(endpoint: str, method: str, big: Path | None = None) -> None:
    """One request of the large object with nothing but HTTP around it."""
    host = endpoint.removeprefix("http://")
    scope = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    connection = HTTPConnection(host, timeout=600, blocksize=1 << 20)
    with contextlib.closing(connection), contextlib.ExitStack() as stack:
        body = stack.enter_context(big.open("rb")) if big else None
        length = {"Content-Length": str(SIZE)} if big else {}
        connection.request(method, "/bench/big", body, {"Authorization": scope, **length})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        buffer = bytearray(1 << 20)
        while answer.readinto(buffer):
            pass


def measure(endpoint: str, process: psutil.Process, big: Path) -> Figures:
    s3 = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=600),
    )  # fmt: skip
    s3.create_bucket(Bucket="bench")
    s3.put_object(Bucket="bench", Key="warm", Body=b"x")
    s3.get_object(Bucket="bench", Key="warm")["Body"].read()
    before = process.memory_info().rss
    found: Figures = {}

    def put() -> None:
        with big.open("rb") as data:
            s3.put_object(Bucket="bench", Key="big", Body=data)

    def get(**how: str) -> None:
        drain(s3.get_object(Bucket="bench", Key="big", **how)["Body"])

    def small() -> None:
        for number in range(SMALL):
            s3.put_object(Bucket="bench", Key=f"small/{number}", Body=b"x" * 1024)

    found["put s"] = timed(put)
    found["get s"] = timed(get)
    # Without boto3, which signs and checks every byte on the same cores.
    found["bare put s"] = timed(lambda: bare(endpoint, "PUT", big))
    found["bare get s"] = timed(lambda: bare(endpoint, "GET"))
    ranges = (f"bytes={at}-{at + RANGE - 1}" for at in range(SIZE // 2, SIZE, SIZE // 16))
    found["1 MB range ms"] = 1000 * median([timed(lambda span=span: get(Range=span)) for span in ranges])  # type: ignore[misc]
    found[f"{SMALL} x 1 KB put s"] = timed(small)
    found[f"list {SMALL} s"] = median(
        [timed(lambda: s3.list_objects_v2(Bucket="bench", Prefix="small/")) for _ in range(5)]
    )
    found["RSS growth MB"] = (process.memory_info().rss - before) / 2**20
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-s3-") as directory:
        big = Path(directory, "big")
        with big.open("wb") as out:
            for _ in range(SIZE >> 20):
                out.write(os.urandom(1 << 20))
        moto_command = [str(BINARIES / "moto_server"), "--port", "0"]
        with started(moto_command, r"Running on (http://\S+)") as (endpoint, process):
            moto = measure(endpoint, process, big)
        data = str(Path(directory, "data"))
        ours_command = [str(BINARIES / "sagelet"), "up", "--port", "0", "--data", data, "--runtime", "process"]
        with started(ours_command, r"ready: (http://\S+)") as (endpoint, process):
            ours = measure(endpoint, process, big)
    print(f"{'S3, objects of ' + str(SIZE >> 20) + ' MiB':28} {'moto':>10} {'sagelet':>10} {'moto/sagelet':>13}")
    for name in ours:
        print(f"{name:28} {moto[name]:10.3f} {ours[name]:10.3f} {moto[name] / max(ours[name], 1e-9):12.1f}x")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({"bytes": SIZE, "moto": moto, "sagelet": ours}, indent=2))


if __name__ == "__main__":
    main()
