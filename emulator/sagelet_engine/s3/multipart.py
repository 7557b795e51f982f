"""Multipart uploads.

Parts are written straight into the file that the object will be: part N at (N - 1) times the size of the part that came
first. SDKs cut all parts but the last to one size, so completing 10 GiB copies nothing. A part that does not fit its
slot, or comes a second time, gets a file of its own, and completing copies it to its place.

An upload ends once. `UploadLocks` lets one thread at a time complete or abort it, and the transaction that commits the
end finds the upload there, or changes nothing. The object gets a file id of its own, which is a second name of the
upload's file. So a late writer, which makes or writes the upload's file again, does not reach the object.
"""

import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sagelet_engine.base.database import NotFlushed
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.s3 import checksums
from sagelet_engine.s3.checksums import CRCS, Digests
from sagelet_engine.s3.errors import DamagedObject, InvalidPart, NoSuchUpload, PartTooSmall, WrongWhole
from sagelet_engine.s3.files import NO_LINK, clean_disk_full, copy_range, give_back
from sagelet_engine.s3.group_commit import Check
from sagelet_engine.s3.records import COMPOSITE, FULL_OBJECT, ObjectPart, StoredObject, Upload, UploadedPart
from sagelet_engine.s3.staged import READ_ONLY, Digesting, Ring, StagedFile
from sagelet_engine.s3.store import S3Store, anything

MIN_PART = 5 * 1024 * 1024


@dataclass(frozen=True)
class NamedPart:
    """A part as CompleteMultipartUpload names it."""

    number: int
    #: Without quotes.
    etag: str
    checksums: Mapping[str, str]


class _Slot(StagedFile):
    """A part's place in the upload's file. It is written like a staged file."""

    def __init__(self, descriptor: int, offset: int, limit: int, digests: Digests) -> None:
        self.size = 0
        self._digesting = Digesting(digests)
        self._ring = Ring()
        self._descriptor, self._offset, self._limit = descriptor, offset, limit

    def write(self, data: bytes | memoryview) -> int:
        if self.size + len(data) > self._limit:
            raise ValueError("The part is longer than its announced size")
        self._digesting.add(data)
        view = memoryview(data)
        while view:
            done = os.pwrite(self._descriptor, view, self._offset + self.size)
            self.size += done
            view = view[done:]
        return len(data)


class Uploads:
    """The multipart uploads of a store."""

    def __init__(self, store: S3Store) -> None:
        self._store = store
        self._catalog = store.catalog
        self._files = store.files
        self._locks = store.upload_locks

    def begin(self, bucket: str, key: str, **members: Any) -> Upload:
        """Begins an upload. `members`: attributes, tags, checksum_algorithm, checksum_type. Raises NoSuchBucket."""
        now = self._store.clock.now_ms()
        upload = Upload(uuid.uuid4().hex * 2, bucket, key, uuid.uuid4().hex, now, None, **members)
        self._catalog.add_upload(upload)
        failpoint(Failpoint.AFTER_UPLOAD_BEGAN)
        return upload

    @contextmanager
    def part(
        self, upload: Upload, number: int, size: int | None, algorithms: Sequence[str]
    ) -> Iterator[tuple[StagedFile, "list[UploadedPart]"]]:
        """Gives a file to write part `number` to.

        If the block raises nothing, the part is kept and appended to the list. `size`: bytes, or None if unknown.
        Raises NoSuchUpload, DiskFull.
        """
        kept: list[UploadedPart] = []
        digests = Digests(algorithms)
        with clean_disk_full(self._files.root), self._claimed(upload, number, size) as offset:
            if offset is None or size is None:
                with self._files.stage(digests) as staged:
                    yield staged, kept
                    staged.finish()
                    kept.append(self._keep(upload, number, staged, staged.file_id))
                return
            with self._slot(upload, offset, size, digests) as slot:
                yield slot, kept
            try:
                kept.append(self._keep(upload, number, slot, None))
            except NoSuchUpload:
                self._sweep(upload)
                raise

    @contextmanager
    def _slot(self, upload: Upload, offset: int, size: int, digests: Digests) -> Iterator[_Slot]:
        """Gives a slot to write to. Its bytes are on the disk after the block has ended well."""
        descriptor = self._open_slots(upload)
        try:
            yield _Slot(descriptor, offset, size, digests)
            os.fdatasync(descriptor)
        except BaseException:
            give_back(descriptor, offset, size)
            self._sweep(upload)
            raise
        finally:
            os.close(descriptor)

    def _open_slots(self, upload: Upload) -> int:
        """Opens the upload's file. It is made only while no part is in it, since a part would be zeros in a new
        file.
        """
        making = 0 if self._catalog.has_slots(upload) else os.O_CREAT
        try:
            return os.open(self._files.staged(upload.file_id), os.O_WRONLY | making, 0o644)
        except FileNotFoundError as error:
            raise self._lost(upload) from error

    def _lost(self, upload: Upload) -> SageletError:
        """Returns why a file of the upload is missing. Raises NoSuchUpload if the upload has ended meanwhile."""
        self._catalog.upload(upload.bucket, upload.key, upload.id)
        return DamagedObject(
            f"Bytes of the multipart upload {upload.id} of s3://{upload.bucket}/{upload.key} are gone from the data "
            "directory. Abort it and upload again"
        )

    def _sweep(self, upload: Upload) -> None:
        """Removes the file of an upload that has ended. A late part may have made it anew."""
        if not self._catalog.is_of_upload(upload.file_id):
            self._files.remove_staged(upload.file_id)

    @contextmanager
    def _claimed(self, upload: Upload, number: int, size: int | None) -> Iterator[int | None]:
        """Claims the part's slot for this writer alone. Gives its offset, or None if the part needs a file of its
        own.
        """
        with self._locks.slot(upload.id, number) as free:
            if not free or not size or self._catalog.has_part(upload, number):
                yield None
                return
            width = upload.slot or self._catalog.claim_slot_size(upload, size)
            yield (number - 1) * width if size <= width else None

    def _keep(self, upload: Upload, number: int, written: StagedFile, file_id: str | None) -> UploadedPart:
        digests = written.digests
        now = self._store.clock.now_ms()
        part = UploadedPart(number, written.size, digests.md5.hex(), now, digests.values(), file_id)
        failpoint(Failpoint.BEFORE_PART)
        with self._locks.recording(upload.id):
            replaced = self._catalog.put_part(upload, part)
            failpoint(Failpoint.AFTER_PART)
        if replaced is not None:
            # An export copies the catalogue first, and then the files that it names. No slot may be claimed in between.
            with self._store.committing():
                self._files.remove_staged(replaced)
        return part

    def parts(self, upload: Upload) -> list[UploadedPart]:
        """Raises NoSuchUpload."""
        found = self._catalog.parts(upload)
        if not found:
            # There is no slot yet, or no upload any more.
            self._catalog.upload(upload.bucket, upload.key, upload.id)
        return found

    def abort(self, upload: Upload) -> None:
        """Raises NoSuchUpload."""
        with self._locks.ending(upload.id), self._store.committing():
            files = self._catalog.files_of(upload)
            self._catalog.remove_upload(upload)
            failpoint(Failpoint.AFTER_ABORT)
            for file_id in files:
                self._files.remove_staged(file_id)

    def abort_older(self, initiated_ms: int, *, dry_run: bool = False) -> tuple[int, int]:
        """Aborts the uploads that began before `initiated_ms`. Returns their number and the bytes of their parts."""
        found, size = self._catalog.uploads_before(initiated_ms), 0
        for upload in found:
            size += sum(part.size for part in self._catalog.parts(upload))
            if not dry_run:
                with suppress(NoSuchUpload):
                    self.abort(upload)
        return len(found), size

    def complete(
        self,
        upload: Upload,
        named: Sequence[NamedPart],
        *,
        check: Check = anything,
        expected: Mapping[str, str] | None = None,
        size: int | None = None,
    ) -> StoredObject:
        """Makes an object of the named parts.

        `expected` and `size` are its checksums and its bytes as the client gives them. Raises InvalidPart,
        PartTooSmall, WrongWhole, NoSuchUpload, and what `check` raises.
        """
        with self._locks.ending(upload.id) as idle:
            # The upload as it is now: its parts say how wide a slot is.
            upload = self._catalog.upload(upload.bucket, upload.key, upload.id)
            there = self._catalog.parts(upload)
            parts = _chosen(named, {part.number: part for part in there})
            # The check runs before anything is copied, and again in the transaction.
            check(self._catalog.find(upload.bucket, upload.key))
            sums, kind = _checksums(upload, parts)
            _compare(expected, size, sums, sum(part.size for part in parts))
            try:
                file_id = self._joined(upload, parts, there, idle=idle)
            except FileNotFoundError as error:
                raise self._lost(upload) from error
            with self._discarding(file_id):
                failpoint(Failpoint.BEFORE_COMPLETION)
                stored = self._store.commit(
                    upload.bucket, upload.key, file_id, sum(part.size for part in parts),
                    check=check, upload_id=upload.id, named=_fingerprint(named),
                    etag=checksums.multipart_etag([part.etag for part in parts]),
                    attributes=upload.attributes, tags=upload.tags, checksums=sums, checksum_type=kind,
                    parts=tuple(ObjectPart(part.number, part.size, part.checksums) for part in parts),
                )  # fmt: skip
            failpoint(Failpoint.AFTER_COMPLETION)
            with suppress(OSError):
                # Not earlier: a refused completion may be repeated, and the repetition writes to the file again.
                (self._files.root / stored.path).chmod(READ_ONLY)
            for name in [upload.file_id, *(part.file_id for part in there if part.file_id)]:
                self._files.remove_staged(name)
        return stored

    def completed(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        named: Sequence[NamedPart],
        *,
        expected: Mapping[str, str] | None = None,
        size: int | None = None,
    ) -> StoredObject:
        """Returns the object that a completed upload with the same parts became, even if its key was replaced or
        deleted since.

        Raises WrongWhole, NoSuchUpload.
        """
        stored = self._catalog.completed(bucket, key, upload_id, _fingerprint(named))
        _compare(expected, size, stored.checksums, stored.size)
        return stored

    @contextmanager
    def _discarding(self, file_id: str) -> Iterator[None]:
        """Removes a staged file when the block fails, unless a row names it."""
        try:
            yield
        except NotFlushed:
            raise
        except BaseException:
            self._files.remove_staged(file_id)
            raise

    def _joined(
        self, upload: Upload, parts: Sequence[UploadedPart], there: Sequence[UploadedPart], *, idle: bool
    ) -> str:
        """Joins the parts in one staged file, which is on the disk when this returns."""
        width = upload.slot or 0
        in_order = all(part.number == place and part.size == width for place, part in enumerate(parts[:-1], 1))
        last = parts[-1]
        fits = in_order and last.number == len(parts) and last.size <= width and len(parts) == len(there)
        with clean_disk_full(self._files.root):
            return self._fill_slots(upload, parts) if fits and idle else self._copied(upload, parts)

    def _fill_slots(self, upload: Upload, parts: Sequence[UploadedPart]) -> str:
        """Gives the upload's file a second name once all parts are in it. Copies the file if the file system gives no
        second names.
        """
        # As in `_open_slots`: if the file were made anew, a part in it would be zeros.
        making = os.O_CREAT if all(part.file_id for part in parts) else 0
        target = os.open(self._files.staged(upload.file_id), os.O_RDWR | making, 0o644)
        try:
            self._copy_parts(upload, [part for part in parts if part.file_id], target, None)
            os.ftruncate(target, sum(part.size for part in parts))
            try:
                file_id = self._files.link_staged(upload.file_id)
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
                return self._copied(upload, parts)
            with self._discarding(file_id):
                # Only after the file has its second name, which must be on the disk, too.
                os.fsync(target)
        finally:
            os.close(target)
        return file_id

    def _copied(self, upload: Upload, parts: Sequence[UploadedPart]) -> str:
        with self._files.stage() as staged:
            target = os.open(self._files.staged(staged.file_id), os.O_RDWR)
            try:
                self._copy_parts(upload, parts, target, 0)
            finally:
                os.close(target)
            staged.finish()
        return staged.file_id

    def _copy_parts(self, upload: Upload, parts: Sequence[UploadedPart], target: int, offset: int | None) -> None:
        """Copies parts one after another from `offset`, or, if `offset` is None, each into its slot."""
        width = upload.slot or 0
        for part in parts:
            source = os.open(self._files.staged(part.file_id or upload.file_id), os.O_RDONLY)
            try:
                begin = 0 if part.file_id else (part.number - 1) * width
                copy_range(source, target, begin, part.size, (part.number - 1) * width if offset is None else offset)
            finally:
                os.close(source)
            offset = None if offset is None else offset + part.size


def _compare(expected: Mapping[str, str] | None, size: int | None, sums: Mapping[str, str], actual: int) -> None:
    """Compares what the client says of the whole with what it is. Raises WrongWhole."""
    if wrong := checksums.same(expected or {}, sums):
        raise WrongWhole(wrong)
    if size not in (None, actual):
        raise WrongWhole("size")


def _fingerprint(named: Sequence[NamedPart]) -> str:
    """Returns a text that is equal only for equal parts."""
    return hashlib.sha256(",".join(f"{part.number}:{part.etag}" for part in named).encode()).hexdigest()


def _chosen(named: Sequence[NamedPart], there: Mapping[int, UploadedPart]) -> list[UploadedPart]:
    chosen = []
    for part in named:
        found = there.get(part.number)
        if found is None or found.etag != part.etag or checksums.same(part.checksums, found.checksums):
            raise InvalidPart(
                "One or more of the specified parts could not be found. The part may not have been uploaded, "
                "or the specified entity tag may not match the part's entity tag."
            )
        chosen.append(found)
    for found in chosen[:-1]:
        if found.size < MIN_PART:
            raise PartTooSmall(found.number, found.size, found.etag)
    return chosen


def _checksums(upload: Upload, parts: Sequence[UploadedPart]) -> tuple[dict[str, str], str]:
    """Returns the object's checksums, as far as its parts have them, and their type."""
    algorithm = upload.checksum_algorithm or checksums.DEFAULT
    values = [part.checksums.get(algorithm, "") for part in parts]
    if not all(values):
        return {}, FULL_OBJECT
    kind = upload.checksum_type or (FULL_OBJECT if algorithm == checksums.DEFAULT else COMPOSITE)
    if kind == FULL_OBJECT and algorithm in CRCS:
        sizes = [part.size for part in parts]
        return {algorithm: checksums.combined(algorithm, zip(values, sizes, strict=True))}, FULL_OBJECT
    return {algorithm: checksums.of_parts(algorithm, values)}, COMPOSITE
