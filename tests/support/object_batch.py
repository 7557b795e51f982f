"""Objects on their way, for stand-ins of S3."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


class Batch:
    """Their bytes by key; what fails within its block is not among them."""

    def __init__(self) -> None:
        self.made: dict[str, bytes] = {}

    @contextmanager
    def create(self, key: str) -> Iterator[BinaryIO]:
        data = io.BytesIO()
        yield data
        self.made[key] = data.getvalue()
