"""A store on a directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.s3.store import S3Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[S3Store]:
    opened = S3Store(tmp_path / "s3", SystemClock())
    opened.create_bucket("bucket", "123456789012", "us-east-1")
    yield opened
    opened.close()
