"""The object store broken on purpose. The sooner its histories find each mutant, the more they are worth.

A mutant is a mistake that somebody could make in a small change. It patches one name. "Was made" marks mistakes of the
first sagelet with multipart uploads.
"""

import fcntl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO
from unittest import mock

from sagelet_engine.base.clock import Clock
from sagelet_engine.s3 import catalog as catalog_module
from sagelet_engine.s3 import multipart
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.errors import DamagedObject, NoSuchUpload
from sagelet_engine.s3.files import Files
from sagelet_engine.s3.group_commit import Check
from sagelet_engine.s3.multipart import Uploads
from sagelet_engine.s3.records import StoredObject, Upload, UploadedPart
from sagelet_engine.s3.store import MayRead, S3Store, Spare, anything, nothing, without_key
from sagelet_engine.s3.upload_locks import UploadLocks
from sagelet_engine.state import exporting

Mutant = Callable[[], Any]


@contextmanager
def _at_once(_locks: UploadLocks, _upload_id: str) -> Iterator[bool]:
    yield True


def _no_exclusion() -> Any:
    """Was made."""
    return mock.patch.multiple(UploadLocks, ending=_at_once, recording=_at_once)


def _parts_while_it_ends() -> Any:
    """Was made."""
    return mock.patch.object(UploadLocks, "recording", _at_once)


def _slots_for_all() -> Any:
    @contextmanager
    def slot(_locks: UploadLocks, _upload_id: str, _number: int) -> Iterator[bool]:
        yield True

    return mock.patch.object(UploadLocks, "slot", slot)


def _never_busy() -> Any:
    """Completes in the upload's file although a part is being written to it."""
    work = UploadLocks.ending

    @contextmanager
    def ending(locks: UploadLocks, upload_id: str) -> Iterator[bool]:
        with work(locks, upload_id):
            yield True

    return mock.patch.object(UploadLocks, "ending", ending)


def _no_look_in_the_transaction() -> Any:
    """Was made."""

    def remove(db: Any, upload_id: str) -> None:
        db.execute("DELETE FROM uploads WHERE id = ?", (upload_id,))

    return mock.patch.object(catalog_module, "_remove_upload", remove)


def _the_uploads_own_file() -> Any:
    """The object has the file id of its upload. Was made."""
    return mock.patch.object(Files, "link_staged", lambda _files, file_id: file_id)


def _files_made_at_any_time() -> Any:
    """A part that no longer belongs to the upload makes the upload's file again and leaves it. Was made."""
    return mock.patch.object(Uploads, "_sweep", return_value=None)


def _no_repeats() -> Any:
    """Was made."""

    def completed(_catalog: Catalog, _bucket: str, _key: str, upload_id: str, _named: str) -> StoredObject:
        raise NoSuchUpload(upload_id)

    return mock.patch.object(Catalog, "completed", completed)


def _any_repeat() -> Any:
    return mock.patch.object(multipart, "_fingerprint", return_value="")


def _old_parts() -> Any:
    """A part that is sent again keeps its file."""
    work = Catalog.put_part

    def put_part(catalog: Catalog, upload: Upload, part: UploadedPart) -> str | None:
        work(catalog, upload, part)
        return part.file_id

    return mock.patch.object(Catalog, "put_part", put_part)


def _rename_before_row() -> Any:
    work = Catalog.put

    def put(catalog: Catalog, stored: StoredObject, **how: Any) -> None:
        root = catalog._path.parent
        with suppress(FileNotFoundError):  # of an object that gets other tags
            (root / stored.path).parent.mkdir(parents=True, exist_ok=True)
            (root / ".staged" / stored.file_id).replace(root / stored.path)
        work(catalog, stored, **how)

    return mock.patch.object(Catalog, "put", put)


def _conditions_before_the_transaction() -> Any:
    work = S3Store.commit

    def commit(
        store: S3Store, bucket: str, key: str, file_id: str, size: int, *, check: Check = anything, **members: Any
    ) -> StoredObject:
        check(store.catalog.find(bucket, key))
        return work(store, bucket, key, file_id, size, **members)

    return mock.patch.object(S3Store, "commit", commit)


def _conditions_of_what_is_there() -> Any:
    """Two deletions of the same version both succeed. Was made."""
    work = S3Store.delete

    def delete(store: S3Store, bucket: str, keys: Iterable[str], *, spare: Spare = nothing) -> list[StoredObject]:
        return work(store, bucket, keys, spare=lambda key, current: current is not None and spare(key, current))

    return mock.patch.object(S3Store, "delete", delete)


def _one_look() -> Any:
    """A reader believes the row that it saw before it opened the file."""

    def open_object(
        store: S3Store, bucket: str, key: str, may_read: MayRead = without_key
    ) -> tuple[StoredObject, BinaryIO]:
        stored = store.head(bucket, key)
        data = store.files.open(stored.file_id, stored.path)
        return (stored, data) if data is not None else store._open_at_rest(bucket, key, may_read)

    return mock.patch.object(S3Store, "open", open_object)


def _two_places_one_after_the_other() -> Any:
    """A reader misses a file that moves from one place to the other meanwhile. Was made."""

    def at_rest(store: S3Store, bucket: str, key: str, _may_read: MayRead) -> tuple[StoredObject, BinaryIO]:
        raise DamagedObject(store.head(bucket, key).path)

    return mock.patch.object(S3Store, "_open_at_rest", at_rest)


def _writers_at_once() -> Any:
    work = S3Store.__init__

    def made(store: S3Store, root: Path, clock: Clock) -> None:
        work(store, root, clock)
        store._guard = store._commits._guard = nullcontext()  # type: ignore[assignment]

    return mock.patch.multiple(S3Store, __init__=made, _alone=lambda _store: nullcontext())


def _the_first_of_a_group_last() -> Any:
    """Two writers of one key commit together, and the file of the first takes the place of the second's."""
    work = S3Store._publish

    def publish(store: S3Store, stored: Iterable[StoredObject]) -> None:
        work(store, reversed([*stored]))

    return mock.patch.object(S3Store, "_publish", publish)


def _file_before_row() -> Any:
    """A deletion removes the bytes first."""
    return mock.patch.object(
        Files, "withdraw", lambda files, _file_id, path: (files.root / path).unlink(missing_ok=True)
    )


def _no_recovery() -> Any:
    return mock.patch.object(S3Store, "recover", return_value=None)


def _uploads_are_garbage() -> Any:
    return mock.patch.object(Catalog, "is_of_upload", return_value=False)


def _deletions_stay_deleted() -> Any:
    """Recovery takes every staged file for garbage, whatever its row says."""
    return mock.patch.object(Catalog, "by_file", return_value=None)


def _exports_at_any_time() -> Any:
    """An export copies the catalogue first, and then files, some of which are gone."""
    unlocked = SimpleNamespace(**{**vars(fcntl), "flock": lambda *_: None})
    return mock.patch.object(exporting, "fcntl", unlocked)


#: Each mutant, with the theme of the histories that find it soonest.
MUTANTS: dict[str, tuple[Mutant, str]] = {
    "nobody is kept out of an upload": (_no_exclusion, "upload"),
    "parts are recorded while their upload ends": (_parts_while_it_ends, "upload"),
    "two write one slot": (_slots_for_all, "upload"),
    "a completion does not care who still writes": (_never_busy, "upload"),
    "the transaction does not look for the upload": (_no_look_in_the_transaction, "upload"),
    "an object has its upload's file id": (_the_uploads_own_file, "upload"),
    "late parts leave files": (_files_made_at_any_time, "upload"),
    "a completion cannot be repeated": (_no_repeats, "upload"),
    "a completion is repeated with any parts": (_any_repeat, "upload"),
    "a part's new file is removed for its old one": (_old_parts, "upload"),
    "the rename comes before the row": (_rename_before_row, "key"),
    "conditions are checked before the transaction": (_conditions_before_the_transaction, "key"),
    "conditions are not checked of what is gone": (_conditions_of_what_is_there, "key"),
    "a reader looks once": (_one_look, "key"),
    "a file that moves is gone": (_two_places_one_after_the_other, "key"),
    "writers commit at once": (_writers_at_once, "key"),
    "the first of a group is renamed last": (_the_first_of_a_group_last, "key"),
    "a deletion removes the file first": (_file_before_row, "key"),
    "nothing is recovered": (_no_recovery, "all"),
    "recovery removes uploads": (_uploads_are_garbage, "upload"),
    "recovery removes objects": (_deletions_stay_deleted, "all"),
    "an export waits for nobody": (_exports_at_any_time, "upload"),
}

#: Seeds that find the mutants that are found late. They are tried before the first ones: a history depends on its seed
#: alone. A seed that finds nothing any more, after a change of the store, costs time and no more.
FOUND_AT = {
    "an export waits for nobody": 174,
    "an object has its upload's file id": 618,
}
