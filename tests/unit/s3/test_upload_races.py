"""Two that end one multipart upload at the same time: one wins, and what was acknowledged can be read.

Real threads, so a failure here depends on chance, and success does not; tests/reliability/test_s3_histories.py finds
the same by schedules that a seed repeats.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from sagelet_engine.s3 import multipart
from sagelet_engine.s3.errors import BucketNotEmpty, InvalidPart, NoSuchBucket, NoSuchKey, NoSuchUpload
from sagelet_engine.s3.multipart import NamedPart, Uploads
from sagelet_engine.s3.records import StoredObject, Upload
from sagelet_engine.s3.store import S3Store

ROUNDS = 60
#: The errors that a loser may get.
LOST = (NoSuchUpload, InvalidPart, NoSuchBucket)
CONTENT = b"one part that is whole"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multipart, "MIN_PART", 1)


def part(uploads: Uploads, upload: Upload, number: int, data: bytes) -> NamedPart:
    with uploads.part(upload, number, len(data), []) as (staged, kept):
        staged.write(data)
    return NamedPart(number, kept[0].etag, {})


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call returned or, of LOST, raised; any other error fails the test."""
    start, results = threading.Barrier(len(calls)), [None] * len(calls)

    def run(place: int, call: Callable[[], Any]) -> None:
        start.wait()
        try:
            results[place] = call()
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=entry) for entry in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        assert not isinstance(result, BaseException) or isinstance(result, LOST), repr(result)
    return results


def read(store: S3Store, key: str) -> bytes | None:
    try:
        _, data = store.open("bucket", key)
    except (NoSuchKey, NoSuchBucket):
        return None
    with data:
        return data.read()


def test_completions_of_the_same_parts_leave_the_object_whole(store: S3Store) -> None:
    uploads = Uploads(store)
    for number in range(ROUNDS):
        upload = uploads.begin("bucket", f"k{number}")
        named = [part(uploads, upload, 1, CONTENT)]
        ends = at_once(*[lambda upload=upload, named=named: uploads.complete(upload, named) for _ in range(3)])
        assert sum(isinstance(end, StoredObject) for end in ends) == 1
        assert read(store, upload.key) == CONTENT
    assert store.files.staged_ids() == []


def test_completions_of_different_parts_have_one_winner(store: S3Store) -> None:
    uploads = Uploads(store)
    for number in range(ROUNDS):
        upload = uploads.begin("bucket", f"k{number}")
        first, second = part(uploads, upload, 1, b"first"), part(uploads, upload, 2, b"other")
        lists = [[first], [second], [first, second]]
        ends = at_once(*[lambda upload=upload, named=named: uploads.complete(upload, named) for named in lists])
        (winner,) = [place for place, end in enumerate(ends) if isinstance(end, StoredObject)]
        assert read(store, upload.key) == (b"first", b"other", b"firstother")[winner]
    assert store.files.staged_ids() == []


def test_a_completion_or_an_abort_wins_and_never_both(store: S3Store) -> None:
    uploads = Uploads(store)
    for number in range(ROUNDS):
        upload = uploads.begin("bucket", f"k{number}")
        named = [part(uploads, upload, 1, CONTENT)]
        completed, aborted = at_once(
            lambda upload=upload, named=named: uploads.complete(upload, named),
            lambda upload=upload: Uploads(store).abort(upload),
        )
        assert isinstance(completed, StoredObject) == isinstance(aborted, NoSuchUpload)
        assert read(store, upload.key) == (CONTENT if isinstance(completed, StoredObject) else None)
    assert store.files.staged_ids() == []


def test_two_aborts_have_one_winner(store: S3Store) -> None:
    uploads = Uploads(store)
    for number in range(ROUNDS):
        upload = uploads.begin("bucket", f"k{number}")
        part(uploads, upload, 1, CONTENT)
        ends = at_once(*[lambda upload=upload: uploads.abort(upload) for _ in range(2)])
        assert sum(isinstance(end, NoSuchUpload) for end in ends) == 1
    assert store.files.staged_ids() == []


def test_a_part_is_in_the_upload_or_refused(store: S3Store) -> None:
    """A part that comes again while the upload ends."""
    uploads = Uploads(store)
    for number in range(ROUNDS):
        upload = uploads.begin("bucket", f"k{number}")
        named = [part(uploads, upload, 1, CONTENT)]
        again, completed = at_once(
            lambda upload=upload: part(uploads, upload, 1, CONTENT[::-1]),
            lambda upload=upload, named=named: uploads.complete(upload, named),
        )
        if isinstance(again, NamedPart):
            assert isinstance(completed, InvalidPart)
            uploads.complete(upload, [again])
        assert read(store, upload.key) == (CONTENT[::-1] if isinstance(again, NamedPart) else CONTENT)
    assert store.files.staged_ids() == []


def test_completions_of_two_uploads_of_one_key(store: S3Store) -> None:
    uploads = Uploads(store)
    for _ in range(ROUNDS):
        calls = []
        for data in (b"first", b"second"):
            upload = uploads.begin("bucket", "k")
            named = [part(uploads, upload, 1, data)]
            calls.append(lambda upload=upload, named=named: uploads.complete(upload, named))
        assert all(isinstance(end, StoredObject) for end in at_once(*calls))
        assert read(store, "k") in (b"first", b"second")
    assert store.files.staged_ids() == []


def test_a_bucket_that_goes_takes_the_upload_or_stays(store: S3Store) -> None:
    uploads = Uploads(store)
    for _ in range(ROUNDS):
        upload = uploads.begin("bucket", "k")
        named = [part(uploads, upload, 1, CONTENT)]

        def delete() -> bool:
            try:
                store.delete_bucket("bucket")
            except BucketNotEmpty:
                return False
            return True

        completed, gone = at_once(lambda upload=upload, named=named: uploads.complete(upload, named), delete)
        assert gone != isinstance(completed, StoredObject)
        if gone:
            store.create_bucket("bucket", "123456789012", "us-east-1")
        else:
            assert read(store, "k") == CONTENT
            store.delete("bucket", ["k"])
    assert store.files.staged_ids() == []
