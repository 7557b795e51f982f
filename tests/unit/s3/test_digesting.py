"""Digests and flushes that go on while bytes come."""

import errno
import hashlib
import os
import random
from pathlib import Path

import pytest

from sagelet_engine.clock import SystemClock
from sagelet_engine.s3 import files
from sagelet_engine.s3.checksums import Digests
from sagelet_engine.s3.errors import DiskFull
from sagelet_engine.s3.files import Digesting
from sagelet_engine.s3.store import S3Store


def test_chunks_of_all_sizes_are_digested_in_order() -> None:
    generator = random.Random(3)
    for _ in range(20):
        digesting, data = Digesting(Digests(["CRC32", "SHA256"])), b""
        for _ in range(generator.randrange(40)):
            chunk = generator.randbytes(generator.choice([1, 1000, files.PARALLEL, files.PARALLEL + 7]))
            digesting.add(chunk)
            data += chunk
        assert digesting.done().md5 == hashlib.md5(data).digest()
        # And what comes after somebody looked.
        digesting.add(b"more" * files.PARALLEL)
        assert digesting.done().md5 == hashlib.md5(data + b"more" * files.PARALLEL).digest()


def test_a_digest_that_fails_holds_nobody_up() -> None:
    class Broken(Digests):
        def update(self, data: bytes) -> None:
            raise MemoryError

    digesting = Digesting(Broken())

    def add() -> None:
        for _ in range(3 * files.AHEAD):
            digesting.add(bytes(files.PARALLEL))
        digesting.done()

    with pytest.raises(MemoryError):
        add()


def test_a_flush_on_the_way_that_fails_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells an error of the disk once, and the flush on the way may be who hears it."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "FLUSH", 1000)
    monkeypatch.setattr(os, "fdatasync", full)
    store = S3Store(tmp_path, SystemClock())
    store.create_bucket("bucket", "123456789012", "us-east-1")

    def put() -> None:
        with store.stage() as staged:
            staged.write(bytes(1000))
            store.put("bucket", "k", staged)

    with pytest.raises(DiskFull):
        put()
    monkeypatch.undo()
    assert store.catalog.find("bucket", "k") is None
    assert store.files.staged_ids() == []
    monkeypatch.setattr(files, "FLUSH", 1000)
    put()
    assert store.head("bucket", "k").size == 1000
    store.close()
