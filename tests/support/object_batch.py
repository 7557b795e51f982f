"""A batch of uploads, for stand-ins of S3."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


class Batch:
    """The objects' bytes by key. An upload that fails within its block is left out."""

    def __init__(self) -> None:
        self.made: dict[str, bytes] = {}

    @contextmanager
    def create(self, key: str) -> Iterator[BinaryIO]:
        data = io.BytesIO()
        yield data
        self.made[key] = data.getvalue()
