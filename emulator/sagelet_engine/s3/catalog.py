"""The catalogue of objects in SQLite; all SQL of the store is here.

Keys are BLOBs of their UTF-8 bytes, so they sort as S3 sorts them and may hold a NUL. Every write is one transaction
that is on the disk when it returns. The exceptions are `claim_slot_size` and objects whose rows share a `flush`.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sagelet_engine.base.database import Database, Schema
from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.s3.errors import BucketExists, BucketNotEmpty, DiskFull, NoSuchBucket, NoSuchUpload
from sagelet_engine.s3.records import Bucket, ObjectPart, StoredObject, Upload, UploadedPart

SCHEMA = Schema(
    first=3,
    tables="""
    CREATE TABLE buckets (
        name TEXT PRIMARY KEY, account TEXT NOT NULL, region TEXT NOT NULL, created_ms INTEGER NOT NULL
    );
    CREATE INDEX buckets_by_account ON buckets (account, name);
    CREATE TABLE objects (
        id INTEGER PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name), key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, etag TEXT NOT NULL,
        modified_ms INTEGER NOT NULL, linked_ns INTEGER, record TEXT NOT NULL,
        UNIQUE (bucket, key)
    );
    CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE, key BLOB NOT NULL,
        file_id TEXT NOT NULL UNIQUE, initiated_ms INTEGER NOT NULL, slot INTEGER, record TEXT NOT NULL
    );
    CREATE INDEX uploads_by_key ON uploads (bucket, key, id);
    CREATE TABLE parts (
        upload_id TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE, number INTEGER NOT NULL,
        size INTEGER NOT NULL, etag TEXT NOT NULL, modified_ms INTEGER NOT NULL, checksums TEXT NOT NULL,
        file_id TEXT, PRIMARY KEY (upload_id, number)
    ) WITHOUT ROWID;
    -- Completed uploads: a client that lost the answer and repeats the call gets the same answer.
    CREATE TABLE completions (
        upload_id TEXT PRIMARY KEY,
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE, key BLOB NOT NULL,
        named TEXT NOT NULL, file_id TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
        completed_ms INTEGER NOT NULL, record TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX completions_by_bucket ON completions (bucket);
    CREATE INDEX completions_by_age ON completions (completed_ms);
    -- What owners configure for their buckets. A document is in the form of S3's model, or null after its deletion.
    CREATE TABLE configuration (
        bucket TEXT NOT NULL REFERENCES buckets (name) ON DELETE CASCADE,
        kind TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (bucket, kind, id)
    ) WITHOUT ROWID;
    """,
)
_OBJECT = "bucket, key, file_id, path, size, etag, modified_ms, linked_ns, record"
_UPLOAD = "id, bucket, key, file_id, initiated_ms, slot, record"
#: This byte is greater than every byte of UTF-8 text, so a key that ends with it comes after every other key.
_END = b"\xff"
#: How long a completion may be repeated. AWS names no time; SDKs repeat within minutes.
REMEMBERED_MS = 24 * 60 * 60 * 1000


#: The files of a bucket's uploads.
_FILES_OF_BUCKET = (
    "SELECT file_id FROM uploads WHERE bucket = ? UNION ALL SELECT parts.file_id FROM uploads"
    " JOIN parts ON parts.upload_id = uploads.id WHERE uploads.bucket = ? AND parts.file_id IS NOT NULL"
)


class Catalog(Database):
    """Buckets, objects and uploads of one store. Several processes may have it open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SCHEMA)

    # --- buckets ----------------------------------------------------------------------------------------------

    def bucket(self, name: str) -> Bucket:
        """Raises NoSuchBucket."""
        found = self._rows("SELECT name, account, region, created_ms FROM buckets WHERE name = ?", (name,))
        if not found:
            raise NoSuchBucket(name)
        return Bucket(*found[0])

    def buckets(self, account: str) -> list[Bucket]:
        sql = "SELECT name, account, region, created_ms FROM buckets WHERE account = ? ORDER BY name"
        return [Bucket(*row) for row in self._rows(sql, (account,))]

    def add_bucket(self, bucket: Bucket, configuration: Mapping[str, JsonObject]) -> None:
        """Adds a bucket with documents of its configuration, by kind. Raises BucketExists."""
        values = (bucket.name, bucket.account, bucket.region, bucket.created_ms)
        with self._write() as db:
            found = db.execute("SELECT account, region FROM buckets WHERE name = ?", (bucket.name,)).fetchone()
            if found is not None:
                raise BucketExists(bucket.name, *found)
            db.execute("INSERT INTO buckets (name, account, region, created_ms) VALUES (?, ?, ?, ?)", values)
            for kind, document in configuration.items():
                _configure(db, bucket.name, kind, "", document)

    def remove_bucket(self, name: str) -> list[str]:
        """Removes a bucket and its uploads, and returns the files of those uploads. Raises NoSuchBucket,
        BucketNotEmpty.
        """
        try:
            with self._write() as db:
                files = [row[0] for row in db.execute(_FILES_OF_BUCKET, (name, name))]
                if not db.execute("DELETE FROM buckets WHERE name = ?", (name,)).rowcount:
                    raise NoSuchBucket(name)
        except sqlite3.IntegrityError as error:
            raise BucketNotEmpty(f"The bucket {name} has objects: delete them first") from error
        return files

    def configure(self, bucket: str, kind: str, document: JsonObject | None, document_id: str = "") -> None:
        """Keeps a document of a bucket's configuration, or None for one that was deleted. Raises NoSuchBucket."""
        with self._putting(bucket) as db:
            _configure(db, bucket, kind, document_id, document)

    def configuration(self, bucket: str, kind: str) -> dict[str, JsonObject | None]:
        """Returns a bucket's documents of a kind by their ids, in the order of these. None: it was deleted.

        Most kinds have one document, whose id is empty.
        """
        sql = "SELECT id, document FROM configuration WHERE bucket = ? AND kind = ? ORDER BY id"
        return {row[0]: json.loads(row[1]) for row in self._rows(sql, (bucket, kind))}

    # --- objects ----------------------------------------------------------------------------------------------

    def find(self, bucket: str, key: str) -> StoredObject | None:
        found = self._objects("WHERE bucket = ? AND key = ?", (bucket, key.encode()))
        return found[0] if found else None

    def by_file(self, file_id: str) -> StoredObject | None:
        found = self._objects("WHERE file_id = ?", (file_id,))
        return found[0] if found else None

    def by_path(self, path: str) -> StoredObject | None:
        found = self._objects("WHERE path = ?", (path,))
        return found[0] if found else None

    def move(self, file_id: str, path: str) -> None:
        """Records where a file is now."""
        with self._write() as db:
            db.execute("UPDATE objects SET path = ? WHERE file_id = ?", (path, file_id))

    def under(self, bucket: str, prefix: str, start: bytes, *, inclusive: bool, limit: int) -> list[StoredObject]:
        """Returns the next objects with a prefix, in key order, after (or from) `start`."""
        low, high = prefix.encode(), prefix.encode() + _END
        if low > start:
            start, inclusive = low, True
        operator = ">=" if inclusive else ">"
        clauses = f"WHERE bucket = ? AND key {operator} ? AND key < ? ORDER BY key LIMIT ?"
        return self._objects(clauses, (bucket, start, high, limit))

    def flush(self) -> None:
        """Brings everything that was written to the disk. Raises NotFlushed."""
        if self._has_log:
            self._flush()

    def put(self, stored: StoredObject, *, durable: bool = True) -> None:
        """Adds an object or replaces the one with its key. If not `durable`, it is on the disk after `flush`.

        Raises NoSuchBucket.
        """
        with self._putting(stored.bucket, durable=durable) as db:
            _put_object(db, stored)

    def complete(self, stored: StoredObject, upload_id: str, named: str) -> None:
        """Adds an object as `put` does, and ends the upload that it came from. `named` are its parts. On the disk after
        `flush`.

        Raises NoSuchUpload.
        """
        with self._putting(stored.bucket, durable=False) as db:
            _remove_upload(db, upload_id)
            _put_object(db, stored)
            db.execute("DELETE FROM completions WHERE completed_ms < ?", (stored.modified_ms - REMEMBERED_MS,))
            db.execute(
                "INSERT INTO completions (upload_id, bucket, key, named, file_id, size, etag, completed_ms, record)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (upload_id, stored.bucket, stored.key.encode(), named, stored.file_id, stored.size, stored.etag,
                 stored.modified_ms, _record(replace(stored, parts=()))),
            )  # fmt: skip

    def completed(self, bucket: str, key: str, upload_id: str, named: str) -> StoredObject:
        """Returns the object that an upload with these parts became, without its path and parts. Raises
        NoSuchUpload.
        """
        found = self._rows(
            "SELECT bucket, key, file_id, '', size, etag, completed_ms, NULL, record FROM completions"
            " WHERE upload_id = ? AND bucket = ? AND key = ? AND named = ?",
            (upload_id, bucket, key.encode(), named),
        )
        if not found:
            raise NoSuchUpload(upload_id)
        return _object(found[0])

    @contextmanager
    def _putting(self, bucket: str, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        try:
            with self._write(durable=durable) as db:
                yield db
        except sqlite3.IntegrityError as error:
            raise NoSuchBucket(bucket) from error

    def put_all(self, objects: Iterable[StoredObject]) -> None:
        """Adds or replaces objects as `put` does, all or none of them."""
        with self._write() as db:
            for stored in objects:
                _put_object(db, stored)

    def delete(self, bucket: str, keys: Iterable[str]) -> None:
        with self._write() as db:
            rows = [(bucket, key.encode()) for key in keys]
            db.executemany("DELETE FROM objects WHERE bucket = ? AND key = ?", rows)

    def every_object(self) -> Iterator[StoredObject]:
        """Yields all objects of all buckets, in no order, a page at a time."""
        last = 0
        while rows := self._rows(f"SELECT id, {_OBJECT} FROM objects WHERE id > ? ORDER BY id LIMIT 1000", (last,)):
            yield from (_object(row[1:]) for row in rows)
            last = rows[-1][0]

    def record_paths(self, paths: Iterable[tuple[str, str]]) -> None:
        """Records where files are now. `paths` are pairs of path and file id. The files become the store's own: no hard
        links to a user's files.
        """
        with self._write() as db:
            # Two objects may change places.
            db.execute("UPDATE objects SET path = file_id")
            db.executemany("UPDATE objects SET path = ?, linked_ns = NULL WHERE file_id = ?", paths)

    # --- multipart uploads ------------------------------------------------------------------------------------

    def add_upload(self, upload: Upload) -> None:
        """Raises NoSuchBucket."""
        record = {
            "attributes": upload.attributes, "tags": upload.tags,
            "checksum_algorithm": upload.checksum_algorithm, "checksum_type": upload.checksum_type,
        }  # fmt: skip
        place = (upload.id, upload.bucket, upload.key.encode())
        try:
            with self._write() as db:
                db.execute(
                    "INSERT INTO uploads (id, bucket, key, file_id, initiated_ms, record) VALUES (?, ?, ?, ?, ?, ?)",
                    (*place, upload.file_id, upload.initiated_ms, json.dumps(record)),
                )
        except sqlite3.IntegrityError as error:
            raise NoSuchBucket(upload.bucket) from error

    def upload(self, bucket: str, key: str, upload_id: str) -> Upload:
        """Raises NoSuchUpload."""
        sql = f"SELECT {_UPLOAD} FROM uploads WHERE id = ? AND bucket = ? AND key = ?"
        found = self._rows(sql, (upload_id, bucket, key.encode()))
        if not found:
            raise NoSuchUpload(upload_id)
        return _upload(found[0])

    def uploads(self, bucket: str) -> list[Upload]:
        """Returns a bucket's uploads that are under way, by key and then by age."""
        sql = f"SELECT {_UPLOAD} FROM uploads WHERE bucket = ? ORDER BY key, initiated_ms, id"
        return [_upload(row) for row in self._rows(sql, (bucket,))]

    def uploads_before(self, initiated_ms: int) -> list[Upload]:
        """Returns the uploads of all buckets that are under way and began before `initiated_ms`. The oldest comes
        first.
        """
        sql = f"SELECT {_UPLOAD} FROM uploads WHERE initiated_ms < ? ORDER BY initiated_ms, id"
        return [_upload(row) for row in self._rows(sql, (initiated_ms,))]

    def claim_slot_size(self, upload: Upload, size: int) -> int:
        """Returns the size of the upload's slots in bytes: `size` if no part has come yet.

        The row is on the disk no later than the next write. Nothing is in a slot before its part has a row.
        """
        with self._write(durable=False) as db:
            db.execute("UPDATE uploads SET slot = ? WHERE id = ? AND slot IS NULL", (size, upload.id))
            found = db.execute("SELECT slot FROM uploads WHERE id = ?", (upload.id,)).fetchone()
        if found is None:
            raise NoSuchUpload(upload.id)
        return int(found[0])

    def parts(self, upload: Upload) -> list[UploadedPart]:
        sql = (
            "SELECT number, size, etag, modified_ms, checksums, file_id FROM parts WHERE upload_id = ? ORDER BY number"
        )
        return [_part(row) for row in self._rows(sql, (upload.id,))]

    def has_part(self, upload: Upload, number: int) -> bool:
        return bool(self._rows("SELECT 1 FROM parts WHERE upload_id = ? AND number = ?", (upload.id, number)))

    def has_slots(self, upload: Upload) -> bool:
        """True if a part is in the upload's own file."""
        return bool(self._rows("SELECT 1 FROM parts WHERE upload_id = ? AND file_id IS NULL LIMIT 1", (upload.id,)))

    def put_part(self, upload: Upload, part: UploadedPart) -> str | None:
        """Adds a part, or replaces the one with its number and returns the file of the replaced one. Raises
        NoSuchUpload.
        """
        values = (part.size, part.etag, part.modified_ms, json.dumps(dict(part.checksums)), part.file_id)
        try:
            with self._write() as db:
                old = db.execute(
                    "SELECT file_id FROM parts WHERE upload_id = ? AND number = ?", (upload.id, part.number)
                ).fetchone()
                db.execute("INSERT OR REPLACE INTO parts (upload_id, number, size, etag, modified_ms, checksums,"
                    " file_id) VALUES (?, ?, ?, ?, ?, ?, ?)", (upload.id, part.number, *values),
                )  # fmt: skip
        except sqlite3.IntegrityError as error:
            raise NoSuchUpload(upload.id) from error
        return old[0] if old else None

    def remove_upload(self, upload: Upload) -> None:
        """Raises NoSuchUpload."""
        with self._write() as db:
            _remove_upload(db, upload.id)

    def files_of(self, upload: Upload) -> list[str]:
        """Returns the upload's file and the files of parts that have their own."""
        return [upload.file_id, *(part.file_id for part in self.parts(upload) if part.file_id)]

    def every_upload_file(self) -> list[str]:
        """Returns the files of all uploads that are under way, and of their parts. A file may not be there yet."""
        sql = "SELECT file_id FROM uploads UNION SELECT file_id FROM parts WHERE file_id IS NOT NULL"
        return [row[0] for row in self._rows(sql)]

    def is_of_upload(self, file_id: str) -> bool:
        sql = "SELECT 1 FROM uploads WHERE file_id = ? UNION ALL SELECT 1 FROM parts WHERE file_id = ?"
        return bool(self._rows(sql, (file_id, file_id)))

    # --- connections ------------------------------------------------------------------------------------------

    def _objects(self, clauses: str, parameters: Sequence[Any]) -> list[StoredObject]:
        return [_object(row) for row in self._rows(f"SELECT {_OBJECT} FROM objects {clauses}", parameters)]

    def _as_ours(self, error: sqlite3.DatabaseError) -> SageletError | None:
        ours = super()._as_ours(error)
        return DiskFull(str(ours)) if ours is not None and "full" in str(error) else ours


def _configure(db: sqlite3.Connection, bucket: str, kind: str, document_id: str, document: JsonObject | None) -> None:
    db.execute(
        "INSERT OR REPLACE INTO configuration (bucket, kind, id, document) VALUES (?, ?, ?, ?)",
        (bucket, kind, document_id, json.dumps(document)),
    )


def _remove_upload(db: sqlite3.Connection, upload_id: str) -> None:
    if not db.execute("DELETE FROM uploads WHERE id = ?", (upload_id,)).rowcount:
        raise NoSuchUpload(upload_id)


def _record(stored: StoredObject) -> str:
    record = {
        "attributes": stored.attributes, "checksums": dict(stored.checksums), "checksum_type": stored.checksum_type,
        "tags": dict(stored.tags), "parts": [asdict(part) for part in stored.parts],
    }  # fmt: skip
    return json.dumps(record)


def _put_object(db: sqlite3.Connection, stored: StoredObject) -> None:
    values = (stored.file_id, stored.path, stored.size, stored.etag, stored.modified_ms, stored.linked_ns)
    db.execute(
        f"INSERT INTO objects ({_OBJECT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (bucket, key) DO UPDATE SET"
        " file_id = excluded.file_id, path = excluded.path, size = excluded.size, etag = excluded.etag,"
        " modified_ms = excluded.modified_ms, linked_ns = excluded.linked_ns, record = excluded.record",
        (stored.bucket, stored.key.encode(), *values, _record(stored)),
    )


def _object(row: Sequence[Any]) -> StoredObject:
    bucket, key, file_id, path, size, etag, modified_ms, linked_ns, record = row
    members: Mapping[str, Any] = json.loads(record)
    parts = tuple(ObjectPart(**part) for part in members["parts"])
    return StoredObject(
        bucket=bucket,
        key=key.decode(),
        file_id=file_id,
        path=path,
        size=size,
        etag=etag,
        modified_ms=modified_ms,
        linked_ns=linked_ns,
        **{**members, "parts": parts},
    )


def _upload(row: Sequence[Any]) -> Upload:
    upload_id, bucket, key, file_id, initiated_ms, slot, record = row
    return Upload(upload_id, bucket, key.decode(), file_id, initiated_ms, slot, **json.loads(record))


def _part(row: Sequence[Any]) -> UploadedPart:
    number, size, etag, modified_ms, checksums, file_id = row
    return UploadedPart(number, size, etag, modified_ms, json.loads(checksums), file_id)
