"""S3 of a whole server: kill -9 at any time, import beside a running server, memory, foreign clients."""

import hashlib
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from support.clients import Clients
from support.server import ACCOUNT, SageletProcess, until

#: How many times the server is killed; a longer run: SAGELET_TEST_KILLS=100.
KILLS = int(os.environ.get("SAGELET_TEST_KILLS", "5"))
#: How many files the AWS CLI syncs; a longer run: SAGELET_TEST_SYNC_FILES=5000.
FILES = int(os.environ.get("SAGELET_TEST_SYNC_FILES", "500"))
#: MiB of the upload in parts whose memory is watched; a longer run: SAGELET_TEST_UPLOAD_MIB=10240.
UPLOAD_MIB = int(os.environ.get("SAGELET_TEST_UPLOAD_MIB", "512"))
PART = 5 * 1024 * 1024


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path / "data", "--runtime", "process")
    process.start()
    yield process
    process.stop()


def impatient(server: SageletProcess) -> Any:
    return server.client("s3", config=Config(retries={"total_max_attempts": 1}, connect_timeout=120, read_timeout=30))


class Writer(threading.Thread):
    """Puts, completes uploads and deletes under keys of its own until the server dies.

    `certain` has each key's acknowledged content, or None if it was deleted. `open` is the unfinished change, if any.
    """

    def __init__(self, s3: Any, number: int, seed: int) -> None:
        super().__init__()
        self._s3 = s3
        self._number = number
        self._random = random.Random(f"{seed}/{number}")
        self.certain: dict[str, str | None] = {}
        self.open: tuple[str, str | None] | None = None

    def run(self) -> None:
        while True:
            key = f"w{self._number}/{self._random.choice(['a', 'b', 'b/c', 'd//', '..'])}"
            act = self._random.choice(["put", "put", "delete", "multipart"])
            data = self._random.randbytes(self._random.choice([10, 100_000, 2_000_000]))
            try:
                self._act(act, key, data)
            except (BotoCoreError, ClientError):
                return

    def _act(self, act: str, key: str, data: bytes) -> None:
        place = {"Bucket": "bucket", "Key": key}
        if act == "delete":
            self.open = (key, None)
            self._s3.delete_object(**place)
        elif act == "put":
            self.open = (key, f'"{hashlib.md5(data).hexdigest()}"')
            self._s3.put_object(**place, Body=data)
        else:
            upload = {**place, "UploadId": self._s3.create_multipart_upload(**place)["UploadId"]}
            bodies = (bytes(PART), data)
            parts = [
                {"PartNumber": n, "ETag": self._s3.upload_part(**upload, PartNumber=n, Body=body)["ETag"]}
                for n, body in enumerate(bodies, 1)
            ]
            digest = hashlib.md5(b"".join(hashlib.md5(body).digest() for body in bodies)).hexdigest()
            self.open = (key, f'"{digest}-2"')
            self._s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        self.certain[key] = self.open[1]
        self.open = None


def test_kill_9_at_any_time(server: SageletProcess) -> None:
    """What was acknowledged is there with its ETag and its bytes; what was not is there whole or not at all."""
    server.client("s3").create_bucket(Bucket="bucket")
    known: dict[str, str | None] = {}
    for seed in range(KILLS):
        writers = [Writer(impatient(server), number, seed) for number in range(3)]
        for writer in writers:
            writer.start()
        until(lambda writers=writers: sum(len(writer.certain) for writer in writers) >= 3)
        threading.Event().wait(random.Random(seed).random())
        server.kill()
        allowed = {key: {etag} for key, etag in known.items()}
        for writer in writers:
            writer.join()
            allowed |= {key: {etag} for key, etag in writer.certain.items()}
            if writer.open:
                allowed.setdefault(writer.open[0], {None}).add(writer.open[1])
        server.start()
        s3 = server.client("s3")
        found = {entry["Key"]: entry["ETag"] for entry in s3.list_objects_v2(Bucket="bucket").get("Contents", [])}
        for key, etags in allowed.items():
            assert found.get(key) in etags, f"seed {seed}: {key}"
        assert found.keys() <= allowed.keys()
        for key, etag in found.items():
            _check_bytes(s3, key, etag)
        known = {key: found.get(key) for key in allowed}


def _check_bytes(s3: Any, key: str, etag: str) -> None:
    data = s3.get_object(Bucket="bucket", Key=key)["Body"].read()
    parts = [data] if "-" not in etag else [data[:PART], data[PART:]]
    digests = [hashlib.md5(part).digest() for part in parts]
    whole = digests[0].hex() if len(parts) == 1 else f"{hashlib.md5(b''.join(digests)).hexdigest()}-2"
    assert f'"{whole}"' == etag


def test_objects_outlive_the_server_and_an_import_runs_beside_it(server: SageletProcess, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    for number in range(300):
        (source / "deep" / str(number)).write_text(str(number))
    data = tmp_path / "data"
    command = [str(Path(sys.executable).with_name("sagelet")), "s3", "import", str(source), "s3://fresh/train"]
    done = subprocess.run([*command, "--data", str(data), "--account", ACCOUNT], check=True, capture_output=True)
    assert done.stdout.startswith(b"300 objects")
    s3 = server.client("s3")
    assert s3.list_objects_v2(Bucket="fresh", Prefix="train/deep/")["KeyCount"] == 300
    server.stop()
    server.start()
    assert server.client("s3").get_object(Bucket="fresh", Key="train/deep/7")["Body"].read() == b"7"
    tags = {"TagSet": [{"Key": "a", "Value": "b"}]}
    server.client("s3").put_bucket_tagging(Bucket="fresh", Tagging=tags)


def test_memory_does_not_grow_with_objects(server: SageletProcess, tmp_path: Path) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="warm", Body=b"x")
    s3.get_object(Bucket="bucket", Key="warm")["Body"].read()
    assert server._process is not None
    process = psutil.Process(server._process.pid)
    before = process.memory_info().rss
    big = tmp_path / "big"
    with big.open("wb") as out:
        out.truncate(UPLOAD_MIB << 20)
    s3.upload_file(str(big), "bucket", "parts", Config=TransferConfig(multipart_chunksize=16 << 20, max_concurrency=4))
    os.truncate(big, 512 << 20)
    with big.open("rb") as data:
        s3.put_object(Bucket="bucket", Key="whole", Body=data)
    body = s3.get_object(Bucket="bucket", Key="whole")["Body"]
    while body.read(1 << 20):
        pass
    assert process.memory_info().rss - before < 64 << 20


@pytest.mark.sdk
def test_the_aws_cli_syncs_both_ways(server: SageletProcess, tmp_path: Path) -> None:
    clients = Clients(server, tmp_path)
    server.client("s3").create_bucket(Bucket="synced")
    for number in range(FILES):
        path = tmp_path / "up" / str(number % 7) / f"file {number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    (tmp_path / "up" / "big").write_bytes(os.urandom(20 << 20))
    # S3 shows whole seconds, and `sync` sends again what is newer than that.
    for path in (tmp_path / "up").rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    for arguments in (("up", "s3://synced/p"), ("s3://synced/p", "down")):
        clients.run("aws", "s3", "sync", "--only-show-errors", *arguments)
    up, down = ({p.relative_to(tmp_path / d): p.read_bytes() for p in (tmp_path / d).rglob("*") if p.is_file()}
                for d in ("up", "down"))  # fmt: skip
    assert up == down
    assert len(up) == FILES + 1
    # Nothing is due, so nothing is sent, either way.
    assert clients.run("aws", "s3", "sync", "up", "s3://synced/p") == ""
    assert clients.run("aws", "s3", "sync", "s3://synced/p", "down") == ""
    (tmp_path / "up" / "big").unlink()
    assert "delete: s3://synced/p/big" in clients.run("aws", "s3", "sync", "--delete", "up", "s3://synced/p")
    assert f"Total Objects: {FILES}" in clients.run("aws", "s3", "ls", "--summarize", "--recursive", "s3://synced/p/")
    clients.run("aws", "s3", "rb", "--force", "s3://synced")
