"""Digests and flushes that go on while bytes come."""

import base64
import errno
import hashlib
import io
import os
import random
import threading
import zlib
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.s3 import staged
from sagelet_engine.s3.checksums import Digests
from sagelet_engine.s3.errors import DiskFull
from sagelet_engine.s3.staged import Digesting
from sagelet_engine.s3.store import S3Store


def test_chunks_of_all_sizes_are_digested_in_order() -> None:
    generator = random.Random(3)
    for _ in range(20):
        digesting, data = Digesting(Digests(["CRC32", "SHA256"])), b""
        for _ in range(generator.randrange(40)):
            chunk = generator.randbytes(generator.choice([1, 1000, staged.PARALLEL, staged.PARALLEL + 7]))
            digesting.add(chunk)
            data += chunk
        assert digesting.done().md5 == hashlib.md5(data).digest()
        # And what comes after somebody looked.
        digesting.add(b"more" * staged.PARALLEL)
        assert digesting.done().md5 == hashlib.md5(data + b"more" * staged.PARALLEL).digest()


def test_a_chunk_is_not_written_over_before_it_was_digested(store: S3Store) -> None:
    """The thread that takes the MD5 stands still until all memory for chunks is in use."""
    behind = threading.Event()

    class Slow(Digests):
        def update_md5(self, data: bytes | memoryview) -> None:
            assert behind.wait(120)
            super().update_md5(data)

    content = random.Random(5).randbytes((3 * staged.AHEAD) * staged.CHUNK + 17)
    given = 0

    def read_into(memory: memoryview) -> int:
        nonlocal given
        if given // staged.CHUNK > staged.AHEAD:
            behind.set()
        piece = content[given : given + min(len(memory), 100_000)]
        memory[: len(piece)] = piece
        given += len(piece)
        return len(piece)

    with store.files.stage(Slow(["CRC32"])) as file:
        while file.take(read_into, len(content)):
            pass
        stored = store.put("bucket", "k", file)
    assert stored.etag == hashlib.md5(content).hexdigest()
    assert base64.b64decode(stored.checksums["CRC32"]) == zlib.crc32(content).to_bytes(4, "big")
    assert (store.files.root / "bucket/k").read_bytes() == content


def test_no_more_is_taken_of_a_source_than_was_said(store: S3Store) -> None:
    source = io.BytesIO(b"an object|the next request")
    with store.stage() as file:
        assert file.take(source.readinto, 9) == 9
        assert file.take(source.readinto, 0) == 0
        assert store.put("bucket", "k", file).size == 9
    assert source.read() == b"|the next request"


def test_a_digest_that_fails_holds_nobody_up() -> None:
    class Broken(Digests):
        def update_md5(self, data: bytes | memoryview) -> None:
            raise MemoryError

    digesting = Digesting(Broken())

    def add() -> None:
        for _ in range(3 * staged.AHEAD):
            digesting.add(bytes(staged.PARALLEL))
        digesting.done()

    with pytest.raises(MemoryError):
        add()


def test_a_flush_on_the_way_that_fails_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells an error of the disk once, and the flush on the way may be who hears it."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = S3Store(tmp_path, SystemClock())
    store.create_bucket("bucket", "123456789012", "us-east-1")
    monkeypatch.setattr(staged, "FLUSH", 1000)
    monkeypatch.setattr(os, "fdatasync", full)

    def put() -> None:
        with store.stage() as file:
            file.write(bytes(1000))
            store.put("bucket", "k", file)

    with pytest.raises(DiskFull):
        put()
    monkeypatch.undo()
    assert store.catalog.find("bucket", "k") is None
    assert store.files.staged_ids() == []
    monkeypatch.setattr(staged, "FLUSH", 1000)
    put()
    assert store.head("bucket", "k").size == 1000
    store.close()
