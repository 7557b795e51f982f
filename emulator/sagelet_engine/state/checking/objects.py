"""Checks the catalogue of objects against the files, and makes a new catalogue from the files if it is lost."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.s3 import names
from sagelet_engine.s3.checksums import DEFAULT, Digests
from sagelet_engine.s3.errors import DamagedObject, NoSuchBucket
from sagelet_engine.s3.records import StoredObject, Upload
from sagelet_engine.s3.store import S3Store, is_whole
from sagelet_engine.s3.verifying import verify
from sagelet_engine.state import contents
from sagelet_engine.state.checking.report import Aside, Report

#: Returns account and region of a bucket by its name, for buckets that are in no catalogue.
Owner = Callable[[str], tuple[str, str]]
_CHUNK = 1024 * 1024


class Objects:
    """Checks the objects of a data directory that the caller owns. Raises StoreUnavailable, OSError.

    `lost`: rows may be missing, so a file without a row is an object that has lost it.
    """

    def __init__(self, data: Path, report: Report, aside: Aside, owner: Owner, *, lost: bool) -> None:
        self._report, self._aside, self._owner, self._lost = report, aside, owner, lost
        self._store = S3Store(data / contents.OBJECTS, SystemClock())
        self._files, self._catalog = self._store.files, self._store.catalog
        #: Objects whose bytes are missing, by bucket and key.
        self._missing: dict[tuple[str, str], StoredObject] = {}

    def check(self) -> None:
        try:
            for stored in self._catalog.every_object():
                self._check_object(stored)
            for path in self._extra_files():
                self._check_extra(path)
            for stored in self._missing.values():
                self._tell_missing(stored)
            for upload in self._catalog.uploads_before(2**62):
                self._check_upload(upload)
            self._check_staged()
        finally:
            self._store.close()

    def _count(self, size: int) -> None:
        self._report.objects += 1
        self._report.bytes += size

    def _check_object(self, stored: StoredObject) -> None:
        self._count(stored.size)
        data = self._files.open(stored.file_id, stored.path)
        if data is None:
            self._missing[stored.bucket, stored.key] = stored
            return
        with data:
            status = os.fstat(data.fileno())
            if not is_whole(stored, status):
                why = f"its file has {status.st_size} of {stored.size} bytes" if status.st_size != stored.size else (
                    "its file, which is a link to one of yours, was changed")  # fmt: skip
            else:
                why = _wrong_bytes(stored, data)
        if why:
            self._tell_damaged(stored, why)

    def _tell_damaged(self, stored: StoredObject, why: str) -> None:
        mended = ""
        if self._report.repair:
            staged = self._files.staged(stored.file_id)
            path = f".staged/{stored.file_id}" if staged.exists() else stored.path
            mended = f"{self._aside.move(f'{contents.OBJECTS}/{path}')}; the object is gone"
            self._catalog.delete(stored.bucket, [stored.key])
        self._report.add("object", f"{_name(stored)}: {why}", "put it again, or delete it", mended=mended)

    def _tell_missing(self, stored: StoredObject) -> None:
        mended = ""
        if self._report.repair:
            self._catalog.delete(stored.bucket, [stored.key])
            mended = "the object is gone"
        what = f"{_name(stored)}: its file {stored.path} is missing"
        self._report.add("object", what, "put it again, or delete it", mended=mended)

    # --- files without a row ------------------------------------------------------------------------------------

    def _extra_files(self) -> Iterator[str]:
        root = self._files.root
        for place, directories, files in os.walk(root):
            here = Path(place)
            if here == root:
                directories[:] = sorted(name for name in directories if name == names.ESCAPED or name[0] != ".")
                continue
            for name in sorted(files):
                path = (here / name).relative_to(root).as_posix()
                if not os.path.islink(here / name) and _is_text(path) and self._catalog.by_path(path) is None:
                    yield path

    def _check_extra(self, path: str) -> None:
        found = key_of(path)
        if found is not None and (moved := self._missing.get(found)) is not None and self._fits(path, moved):
            del self._missing[found]
            self._tell_moved(moved, path)
        elif found is not None and self._lost:
            self._tell_lost(path, *found)
        else:
            self._report.add(
                "file", f"{contents.OBJECTS}/{path} belongs to no object: sagelet leaves it alone",
                "none is needed; `sagelet s3 import` makes objects of files", damage=False,
            )  # fmt: skip

    def _fits(self, path: str, stored: StoredObject) -> bool:
        with (self._files.root / path).open("rb") as data:
            return is_whole(stored, os.fstat(data.fileno())) and not _wrong_bytes(stored, data)

    def _tell_moved(self, stored: StoredObject, path: str) -> None:
        if self._report.repair:
            self._catalog.move(stored.file_id, path)
        self._report.add(
            "object", f"{_name(stored)}: its file is not {stored.path} but {path}",
            "`sagelet check --repair` notes that", mended="noted" if self._report.repair else "",
        )  # fmt: skip

    def _tell_lost(self, path: str, bucket: str, key: str) -> None:
        mended = ""
        if self._report.repair:
            if self._catalog.find(bucket, key) is not None:
                mended = self._aside.move(f"{contents.OBJECTS}/{path}")
            else:
                mended = self._adopt(path, bucket, key)
        self._report.add(
            "object", f"{contents.OBJECTS}/{path} has lost its row in the catalogue",
            f"`sagelet check --repair` makes s3://{bucket}/{key} of it", mended=mended,
        )  # fmt: skip

    def _adopt(self, path: str, bucket: str, key: str) -> str:
        try:
            self._catalog.bucket(bucket)
            of = ""
        except NoSuchBucket:
            account, region = self._owner(bucket)
            self._store.create_bucket(bucket, account, region)
            of = f", in a bucket of account {account} in {region}"
        digests = Digests([DEFAULT])
        with (self._files.root / path).open("rb") as data:
            while chunk := data.read(_CHUNK):
                digests.update(chunk)
            status = os.fstat(data.fileno())
        self._catalog.put(
            StoredObject(
                bucket=bucket, key=key, file_id=uuid.uuid4().hex, path=path, size=status.st_size,
                etag=digests.md5.hex(), modified_ms=status.st_mtime_ns // 10**6,
                attributes={"ContentType": "binary/octet-stream"}, checksums=digests.values(),
                linked_ns=status.st_mtime_ns if status.st_nlink > 1 else None,
            )
        )  # fmt: skip
        self._count(status.st_size)
        return f"it is s3://{bucket}/{key} again{of}, without its content type, metadata and tags"

    # --- bytes under way ----------------------------------------------------------------------------------------

    def _check_upload(self, upload: Upload) -> None:
        parts = self._catalog.parts(upload)
        needed = {part.file_id or upload.file_id for part in parts if part.size}
        gone = [name for name in needed if not self._files.staged(name).exists()]
        if not gone:
            return
        if self._report.repair:
            self._catalog.remove_upload(upload)
        self._report.add(
            "upload", f"the parts of the multipart upload of s3://{upload.bucket}/{upload.key} are gone",
            "abort it, and upload again", mended="it is aborted" if self._report.repair else "",
        )  # fmt: skip

    def _check_staged(self) -> None:
        for file_id in self._files.staged_ids():
            stored = self._catalog.by_file(file_id)
            if stored is not None:
                if self._report.repair:
                    self._files.publish(file_id, stored.path)
            elif not self._catalog.is_of_upload(file_id):
                self._tell_staged(file_id)

    def _tell_staged(self, file_id: str) -> None:
        name = f"{contents.OBJECTS}/.staged/{file_id}"
        if not self._lost:
            # Such files were never acknowledged. Every start removes them.
            if self._report.repair:
                self._files.remove_staged(file_id)
            mended = "removed" if self._report.repair else ""
            self._report.add(
                "file", f"{name} was being written when a server was killed", "the next start removes it",
                damage=False, mended=mended,
            )  # fmt: skip
            return
        self._report.add(
            "file", f"{name} may be an object, or a part of one, whose name is lost with the catalogue",
            "`sagelet check --repair` moves it aside", mended=self._aside.move(name) if self._report.repair else "",
        )  # fmt: skip


def key_of(path: str) -> tuple[str, str] | None:
    """Returns bucket and key of a file of the store by its path there, or None if it cannot be an object's."""
    bucket, _, key = path.partition("/")
    if bucket == names.ESCAPED:
        try:
            bucket, key = names.unescaped(path)
        except (ValueError, UnicodeDecodeError):
            return None
    return (bucket, key) if key and names.is_bucket_name(bucket) else None


def _wrong_bytes(stored: StoredObject, data: BinaryIO) -> str:
    try:
        verify(stored, data, by_all=True)
    except DamagedObject:
        return "its bytes are not those that were put: their checksum differs"
    return ""


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(stored: StoredObject) -> str:
    return f"s3://{stored.bucket}/{stored.key}"
