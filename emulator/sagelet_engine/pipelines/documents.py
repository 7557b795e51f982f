"""Reads small objects that a pipeline names: definitions, property files, results of functions."""

import tempfile
from pathlib import Path

from sagelet_engine.model.objects import ObjectStore, S3Uri


def read_text(objects: ObjectStore, account: str, region: str, where: S3Uri) -> str:
    """Returns an object's text; bytes that are not UTF-8 are replaced. Raises ObjectNotFound, ObjectDamaged."""
    with tempfile.TemporaryDirectory(prefix="sagelet-") as directory:
        file = Path(directory) / "object"
        objects.download(account, region, where.bucket, where.key, file)
        return file.read_text(encoding="utf-8", errors="replace")
