"""S3 in memory, which fails now and then."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.model.objects import ObjectInfo, ObjectNotFound
from sagelet_engine.model.principal import Principal
from support.histories.files import Files
from support.histories.schedule import Schedule
from support.object_batch import Batch


class Objects:
    def __init__(self, schedule: Schedule, files: Files) -> None:
        self._schedule = schedule
        self._files = files
        self.kept: dict[tuple[str, str], bytes] = {}
        self.down = False

    def _answer(self, what: str) -> None:
        self._schedule.step()
        if self.down or self._schedule.point(f"S3: {what}", 0.1):
            self._schedule.losses += 1
            raise OSError(5, "Input/output error")

    def list(self, principal: Principal, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        self._answer("list")
        if not any(where[0] == bucket for where in self.kept):
            raise ObjectNotFound(bucket)
        for (held, key), data in sorted(self.kept.items()):
            if held == bucket and key.startswith(prefix):
                yield ObjectInfo(key, len(data), hashlib.md5(data).hexdigest())

    def download(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        self._answer("download")
        if (bucket, key) not in self.kept:
            raise ObjectNotFound(key)
        with self._files.beside():
            target.write_bytes(self.kept[bucket, key])

    link = download

    def size(self, principal: Principal, bucket: str, key: str) -> int | None:
        self._answer("size")
        data = self.kept.get((bucket, key))
        return None if data is None else len(data)

    def upload(self, principal: Principal, source: Path, bucket: str, key: str) -> None:
        self._answer("upload")
        data = source.read_bytes()
        self._answer("upload")
        self.kept[bucket, key] = data

    @contextmanager
    def create(self, principal: Principal, bucket: str, key: str) -> Iterator[BinaryIO]:
        self._answer("create")
        if bucket == "missing":
            raise ObjectNotFound(bucket)
        data = io.BytesIO()
        yield data
        self._answer("create")
        self.kept[bucket, key] = data.getvalue()
        self._schedule.note("uploaded", bucket, key)

    @contextmanager
    def batch(self, principal: Principal, bucket: str) -> Iterator[Batch]:
        self._answer("create")
        if bucket == "missing":
            raise ObjectNotFound(bucket)
        batch = Batch()
        yield batch
        self._answer("create")
        for key, data in batch.made.items():
            self.kept[bucket, key] = data
            self._schedule.note("uploaded", bucket, key)

    def has_bucket(self, principal: Principal, bucket: str) -> bool:
        return bucket != "missing"

    def make_bucket(self, principal: Principal, region: str, bucket: str) -> None:
        self._answer("make_bucket")

    def delete(self, principal: Principal, bucket: str, key: str) -> None:
        self._answer("delete")
        self.kept.pop((bucket, key), None)
