"""Multipart uploads.

Parts are written straight into the file that the object will be: part N at (N - 1) times the size of the part that
came first. SDKs cut all parts but the last to one size, so completing 10 GiB copies nothing. A part that does not fit
its slot, or comes a second time, gets a file of its own, and completing copies it to its place.
"""

import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sagelet_engine.s3 import checksums
from sagelet_engine.s3.checksums import CRCS, Digests
from sagelet_engine.s3.errors import InvalidPart, NoSuchUpload, PartTooSmall, WrongWhole
from sagelet_engine.s3.files import clean_disk_full, copy_range, give_back
from sagelet_engine.s3.records import COMPOSITE, FULL_OBJECT, ObjectPart, StoredObject, Upload, UploadedPart
from sagelet_engine.s3.staged import READ_ONLY, Digesting, Ring, StagedFile
from sagelet_engine.s3.store import Check, S3Store, anything

MIN_PART = 5 * 1024 * 1024


@dataclass(frozen=True)
class NamedPart:
    """A part as CompleteMultipartUpload names it."""

    number: int
    #: Without quotes.
    etag: str
    checksums: Mapping[str, str]


class _Slot(StagedFile):
    """A part's place in the upload's file, written as a staged file is."""

    def __init__(self, descriptor: int, offset: int, limit: int, digests: Digests) -> None:
        self.size = 0
        self._digesting = Digesting(digests)
        self._ring = Ring()
        self._descriptor, self._offset, self._limit = descriptor, offset, limit

    def write(self, data: bytes | memoryview) -> int:
        if self.size + len(data) > self._limit:
            raise ValueError("The part is longer than it was said to be")
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
        self._guard = threading.Lock()
        #: Slots that are being written to now.
        self._busy: set[tuple[str, int]] = set()
        #: Uploads whose file is becoming an object: no slot of it may be written any more.
        self._closed: set[str] = set()

    def begin(self, bucket: str, key: str, **members: Any) -> Upload:
        """`members`: attributes, tags, checksum_algorithm, checksum_type. Raises NoSuchBucket."""
        now = self._store.clock.now_ms()
        upload = Upload(uuid.uuid4().hex * 2, bucket, key, uuid.uuid4().hex, now, None, **members)
        self._catalog.add_upload(upload)
        return upload

    @contextmanager
    def part(
        self, upload: Upload, number: int, size: int | None, algorithms: Sequence[str]
    ) -> Iterator[tuple[StagedFile, "list[UploadedPart]"]]:
        """A file to write part `number` to; it is kept when the block ends well, and is then the list's only entry.

        `size`: bytes, if they are known. Raises NoSuchUpload, DiskFull.
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
            descriptor = os.open(self._files.staged(upload.file_id), os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                slot = _Slot(descriptor, offset, size, digests)
                yield slot, kept
                os.fdatasync(descriptor)
            except BaseException:
                give_back(descriptor, offset, size)
                raise
            finally:
                os.close(descriptor)
            kept.append(self._keep(upload, number, slot, None))

    @contextmanager
    def _claimed(self, upload: Upload, number: int, size: int | None) -> Iterator[int | None]:
        """Where the part's slot begins, for this writer alone; None: it needs a file of its own."""
        slot = (upload.id, number)
        with self._guard:
            free = bool(size) and slot not in self._busy and upload.id not in self._closed
            free = free and not self._catalog.has_part(upload, number)
            if free:
                self._busy.add(slot)
        try:
            width = (upload.slot or self._catalog.claim_slot_size(upload, size)) if free and size else 0
            yield (number - 1) * width if size and size <= width else None
        finally:
            if free:
                with self._guard:
                    self._busy.discard(slot)

    def _keep(self, upload: Upload, number: int, written: StagedFile, file_id: str | None) -> UploadedPart:
        digests = written.digests
        now = self._store.clock.now_ms()
        part = UploadedPart(number, written.size, digests.md5.hex(), now, digests.values(), file_id)
        try:
            replaced = self._catalog.put_part(upload, part)
        except NoSuchUpload:
            # It was aborted meanwhile, and this part may have made its file anew.
            if not self._catalog.by_file(upload.file_id):
                self._files.remove_staged(upload.file_id)
            raise
        if replaced is not None:
            self._files.remove_staged(replaced)
        return part

    def abort(self, upload: Upload) -> None:
        """Raises NoSuchUpload."""
        with self._store.committing():
            files = self._catalog.files_of(upload)
            self._catalog.remove_upload(upload)
            for file_id in files:
                self._files.remove_staged(file_id)

    def abort_older(self, initiated_ms: int, *, dry_run: bool = False) -> tuple[int, int]:
        """Aborts what began before then; returns how many there were, and the bytes of their parts."""
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
        """Makes an object of the named parts; `expected` and `size` are its checksums and bytes as the client has them.

        Raises InvalidPart, PartTooSmall, WrongWhole, NoSuchUpload, and what `check` raises.
        """
        # As it is now: its parts say how wide a slot is.
        upload = self._catalog.upload(upload.bucket, upload.key, upload.id)
        there = self._catalog.parts(upload)
        parts = _chosen(named, {part.number: part for part in there})
        check(self._catalog.find(upload.bucket, upload.key))
        sums, _ = _checksums(upload, parts)
        if wrong := checksums.same(expected or {}, sums):
            raise WrongWhole(wrong)
        if size not in (None, sum(part.size for part in parts)):
            raise WrongWhole("size")
        with self._closing(upload) as idle:
            return self._complete(upload, parts, there, check, idle=idle)

    @contextmanager
    def _closing(self, upload: Upload) -> Iterator[bool]:
        """Nobody begins to write a slot meanwhile; false when somebody did so before and is not done yet."""
        with self._guard:
            self._closed.add(upload.id)
            idle = not any(busy == upload.id for busy, _ in self._busy)
        try:
            yield idle
        finally:
            with self._guard:
                self._closed.discard(upload.id)

    def _complete(
        self, upload: Upload, parts: Sequence[UploadedPart], there: Sequence[UploadedPart], check: Check, *, idle: bool
    ) -> StoredObject:
        file_id = self._joined(upload, parts, there, idle=idle)
        sums, kind = _checksums(upload, parts)
        stored = self._store.commit(
            upload.bucket, upload.key, file_id, sum(part.size for part in parts),
            check=check, upload_id=upload.id, etag=checksums.multipart_etag([part.etag for part in parts]),
            attributes=upload.attributes, tags=upload.tags, checksums=sums, checksum_type=kind,
            parts=tuple(ObjectPart(part.number, part.size, part.checksums) for part in parts),
        )  # fmt: skip
        with suppress(OSError):
            # Not before: a completion that is refused may be repeated, and then writes to the file again.
            (self._files.root / stored.path).chmod(READ_ONLY)
        for name in {upload.file_id, *(part.file_id for part in there if part.file_id)} - {file_id}:
            self._files.remove_staged(name)
        return stored

    def _joined(
        self, upload: Upload, parts: Sequence[UploadedPart], there: Sequence[UploadedPart], *, idle: bool
    ) -> str:
        """A staged file of the parts, on the disk."""
        width = upload.slot or 0
        in_order = all(part.number == place and part.size == width for place, part in enumerate(parts[:-1], 1))
        last = parts[-1]
        fits = in_order and last.number == len(parts) and last.size <= width and len(parts) == len(there)
        with clean_disk_full(self._files.root):
            return self._fill_slots(upload, parts) if fits and idle else self._copied(upload, parts)

    def _fill_slots(self, upload: Upload, parts: Sequence[UploadedPart]) -> str:
        target = os.open(self._files.staged(upload.file_id), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._copy_parts(upload, [part for part in parts if part.file_id], target, None)
            os.ftruncate(target, sum(part.size for part in parts))
            os.fsync(target)
        finally:
            os.close(target)
        return upload.file_id

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
        """Parts one after another from `offset`; None: each into its slot."""
        width = upload.slot or 0
        for part in parts:
            source = os.open(self._files.staged(part.file_id or upload.file_id), os.O_RDONLY)
            try:
                begin = 0 if part.file_id else (part.number - 1) * width
                copy_range(source, target, begin, part.size, (part.number - 1) * width if offset is None else offset)
            finally:
                os.close(source)
            offset = None if offset is None else offset + part.size


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
    """The object's checksum, as far as its parts have one, and its type."""
    algorithm = upload.checksum_algorithm or checksums.DEFAULT
    values = [part.checksums.get(algorithm, "") for part in parts]
    if not all(values):
        return {}, FULL_OBJECT
    kind = upload.checksum_type or (FULL_OBJECT if algorithm == checksums.DEFAULT else COMPOSITE)
    if kind == FULL_OBJECT and algorithm in CRCS:
        sizes = [part.size for part in parts]
        return {algorithm: checksums.combined(algorithm, zip(values, sizes, strict=True))}, FULL_OBJECT
    return {algorithm: checksums.of_parts(algorithm, values)}, COMPOSITE
