"""What is left of a write that was cut at any point, or that found the disk full."""

import contextlib
import errno
import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.database import NotFlushed
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.errors import DamagedObject, DiskFull, NoSuchKey
from sagelet_engine.s3.files import Files
from sagelet_engine.s3.multipart import NamedPart, Uploads
from sagelet_engine.s3.store import S3Store
from support.programs import asks


class Killed(BaseException):
    """The process ends here."""


def put(store: S3Store, key: str, data: bytes) -> None:
    with store.stage() as staged:
        staged.write(data)
        store.put("bucket", key, staged)


def read(store: S3Store, key: str) -> bytes | None:
    try:
        stored, data = store.open("bucket", key)
    except NoSuchKey:
        return None
    with data:
        content = data.read()
    assert len(content) == stored.size
    return content


def reopened(store: S3Store) -> S3Store:
    store.close()
    again = S3Store(store.files.root, SystemClock())
    again.recover()
    return again


#: Where a process may die, before and after: of staging, the row, the rename, the removal.
POINTS = [
    (Files, "publish"), (Files, "withdraw"), (Files, "remove_staged"), (Files, "prune"), (Files, "choose_path"),
    (Catalog, "put"), (Catalog, "complete"), (Catalog, "delete"), (Catalog, "put_part"), (Files, "link_staged"),
]  # fmt: skip


def dying(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, after: bool) -> None:
    work: Callable[..., Any] = getattr(owner, name)

    def die(*arguments: Any, **options: Any) -> Any:
        if after:
            work(*arguments, **options)
        raise Killed

    monkeypatch.setattr(owner, name, die)
    # A dead process discards nothing.
    monkeypatch.setattr("sagelet_engine.s3.files.StagedFile.discard", lambda self: None)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "name"), POINTS)
@pytest.mark.parametrize("change", ["new", "overwrite", "delete", "multipart"])
def test_a_crash_leaves_the_old_or_the_new(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, change: str, owner: type, name: str, after: bool
) -> None:
    if change != "new":
        put(store, "a/k", b"old")
    before = read(store, "a/k")
    with monkeypatch.context() as patch:
        dying(patch, owner, name, after=after)
        done = False
        try:
            if change == "delete":
                store.delete("bucket", ["a/k"])
            elif change == "multipart":
                uploads = Uploads(store)
                upload = uploads.begin("bucket", "a/k")
                with uploads.part(upload, 1, 3, []) as (staged, kept):
                    staged.write(b"new")
                uploads.complete(upload, [NamedPart(1, kept[0].etag, {})])
            else:
                put(store, "a/k", b"new")
            done = True
        except Killed:
            pass
    store = reopened(store)
    wanted = None if change == "delete" else b"new"
    found = read(store, "a/k")
    assert found == wanted if done else found in (before, wanted)
    if not store.catalog.uploads("bucket"):
        assert store.files.staged_ids() == []
    files = [path for path in (store.files.root / "bucket").rglob("*") if path.is_file()]
    assert len(files) == (found is not None)
    put(store, "a/k", b"later")
    assert read(store, "a/k") == b"later"
    store.close()


def test_an_upload_goes_on_after_a_crash(store: S3Store) -> None:
    uploads = Uploads(store)
    upload = uploads.begin("bucket", "k")
    with uploads.part(upload, 1, 5 << 20, []) as (staged, first):
        staged.write(b"a" * (5 << 20))
    store = reopened(store)
    uploads = Uploads(store)
    upload = store.catalog.upload("bucket", "k", upload.id)
    with uploads.part(upload, 2, 1, []) as (staged, second):
        staged.write(b"b")
    uploads.complete(upload, [NamedPart(1, first[0].etag, {}), NamedPart(2, second[0].etag, {})])
    assert read(store, "k") == b"a" * (5 << 20) + b"b"
    store.close()


def test_a_part_that_comes_late_does_not_reach_the_object(store: S3Store) -> None:
    """A client that gave up on part 2 and completed with part 1, while the server still writes part 2."""
    uploads = Uploads(store)
    upload = uploads.begin("bucket", "k")
    with uploads.part(upload, 1, 3, []) as (staged, first):
        staged.write(b"one")
    upload = store.catalog.upload("bucket", "k", upload.id)
    late = uploads.part(upload, 2, 3, [])
    staged, _ = late.__enter__()
    staged.write(b"t")
    uploads.complete(upload, [NamedPart(1, first[0].etag, {})])
    staged.write(b"wo")
    with pytest.raises(Exception, match=upload.id):
        late.__exit__(None, None, None)
    assert read(store, "k") == b"one"
    assert store.files.staged_ids() == []


def test_a_file_that_others_changed_is_refused(store: S3Store) -> None:
    put(store, "k", b"data")
    path = store.files.root / "bucket/k"
    path.chmod(0o644)
    path.write_bytes(b"longer than before")
    with pytest.raises(DamagedObject, match="was changed by another program"):
        store.open("bucket", "k")
    path.unlink()
    with pytest.raises(DamagedObject, match="is gone"):
        store.open("bucket", "k")
    put(store, "k", b"again")
    assert read(store, "k") == b"again"


def test_a_rename_that_fails_leaves_the_object_readable(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        put(store, "k", b"data")
    assert read(store, "k") == b"data"
    store = reopened(store)
    assert (store.files.root / "bucket/k").read_bytes() == b"data"
    store.close()


@pytest.fixture
@asks("mkfs.ext4")
def small_disk(tmp_path: Path) -> Any:
    """A file system of 8 MiB where this machine lets us mount one, else a limit on the size of files."""
    if os.getuid() != 0:
        yield None
        return
    image, place = tmp_path / "disk.img", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as out:
        out.truncate(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True, capture_output=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, place], capture_output=True).returncode == 0
    yield place if mounted else None
    if mounted:
        subprocess.run(["umount", place], check=True)


def test_a_full_disk_leaves_no_half_object(
    small_disk: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3Store((small_disk or tmp_path) / "s3", SystemClock())
    if small_disk is None:
        # The same error from the same call, where no small disk is to be had.
        work, left = os.fsync, [3]

        def full(descriptor: int) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            work(descriptor)

        monkeypatch.setattr(os, "fsync", full)
    store.create_bucket("bucket", "123456789012", "us-east-1")
    kept: list[str] = []

    def fill() -> None:
        for number in range(100):
            put(store, f"k{number}", os.urandom(1 << 20))
            kept.append(f"k{number}")

    with pytest.raises(DiskFull, match="Free space"):
        fill()
    monkeypatch.undo()
    assert kept
    assert [stored.key for stored in store.catalog.under("bucket", "", b"", inclusive=True, limit=100)] == sorted(kept)
    assert store.files.staged_ids() == []
    uploads = Uploads(store)
    store.delete("bucket", [kept[0]])
    assert read(store, kept[0]) is None
    put(store, kept[0], b"fits again")
    assert read(store, kept[0]) == b"fits again"
    assert uploads.begin("bucket", "k").slot is None
    store.close()


def test_a_part_that_fails_gives_its_bytes_back(tmp_path: Path) -> None:
    store = S3Store(tmp_path / "s3", SystemClock())
    store.create_bucket("bucket", "123456789012", "us-east-1")
    uploads = Uploads(store)
    upload = uploads.begin("bucket", "k")
    size = 5 << 20
    with uploads.part(upload, 1, size, []) as (staged, first):
        staged.write(b"1" * size)

    def write_half() -> None:
        with uploads.part(upload, 2, size, []) as (staged, _):
            staged.write(b"2" * (size // 2))
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskFull):
        write_half()
    assert store.files.staged(upload.file_id).stat().st_blocks * 512 < size + (1 << 20)
    with uploads.part(upload, 2, 3, []) as (staged, second):
        staged.write(b"end")
    uploads.complete(upload, [NamedPart(1, first[0].etag, {}), NamedPart(2, second[0].etag, {})])
    assert read(store, "k") == b"1" * size + b"end"
    store.close()


def test_a_row_that_was_not_flushed_has_its_own_bytes(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, "k", b"old")

    def broken() -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(store.catalog._log, "flush", broken)
        with pytest.raises(NotFlushed):
            put(store, "k", b"new")
    stored, data = store.open("bucket", "k")
    with data:
        assert hashlib.md5(data.read()).hexdigest() == stored.etag


def test_a_file_system_without_second_names(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("sagelet_engine.s3.files.os.link", refuse)
    uploads = Uploads(store)
    upload = uploads.begin("bucket", "k")
    with uploads.part(upload, 1, 3, []) as (staged, kept):
        staged.write(b"one")
    uploads.complete(upload, [NamedPart(1, kept[0].etag, {})])
    assert read(store, "k") == b"one"
    assert store.files.staged_ids() == []


def test_the_lost_file_of_an_upload_is_not_made_anew(store: S3Store) -> None:
    """A part that is said to be in it would be zeros."""
    uploads = Uploads(store)
    upload = uploads.begin("bucket", "k")
    with uploads.part(upload, 1, 5 << 20, []) as (staged, kept):
        staged.write(b"1" * (5 << 20))
    store.files.remove_staged(upload.file_id)
    with pytest.raises(DamagedObject, match="upload again"), uploads.part(upload, 2, 3, []):
        pass
    with pytest.raises(DamagedObject, match="upload again"):
        uploads.complete(upload, [NamedPart(1, kept[0].etag, {})])
    assert read(store, "k") is None
    uploads.abort(upload)


def test_a_row_that_was_not_flushed_keeps_the_file_that_it_names(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the flush nor the rename succeeds: the bytes stay where the row's reader finds them."""

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(store.catalog._log, "flush", broken)
        patch.setattr(Path, "replace", broken)
        with pytest.raises(NotFlushed):
            put(store, "k", b"new")
    assert read(store, "k") == b"new"


@pytest.mark.parametrize("is_deleted", [True, False], ids=["is deleted", "its deletion fails"])
def test_the_bytes_of_a_replaced_object_do_not_come_back(
    store: S3Store, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    """The new object's file never reached its place, where that of the old one still is."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    put(store, "k", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        put(store, "k", b"new")
    with monkeypatch.context() as patch:
        if not is_deleted:
            patch.setattr(store.catalog, "delete", full)
        with contextlib.nullcontext() if is_deleted else pytest.raises(DiskFull):
            store.delete("bucket", ["k"])
    assert read(store, "k") == (None if is_deleted else b"new")
    assert not is_deleted or not (store.files.root / "bucket/k").exists()
    store = reopened(store)
    assert read(store, "k") == (None if is_deleted else b"new")
    store.close()
