"""Reads small objects that a pipeline names: definitions, property files, results of functions.

A job of the user's wrote most of them, so a document may be anything.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from sagelet_engine.base.errors import SageletError
from sagelet_engine.model.objects import ObjectDamaged, ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.model.principal import NotAuthorized, Principal
from sagelet_engine.pipelines.expressions import Unresolved

#: Bytes of a document, at most. As Python's objects it takes up to 25 times as much memory.
LARGEST = 8 * 1024**2


class DocumentTooLarge(SageletError):
    """The object has more than LARGEST bytes."""


def read_text(objects: ObjectStore, principal: Principal, where: S3Uri) -> str:
    """Returns an object's text; bytes that are not UTF-8 are replaced.

    Raises ObjectNotFound, ObjectDamaged, DocumentTooLarge, NotAuthorized.
    """
    if (size := objects.size(principal, where.bucket, where.key)) is not None:
        _check_size(where, size)
    with tempfile.TemporaryDirectory(prefix="sagelet-") as directory:
        file = Path(directory) / "object"
        objects.download(principal, where.bucket, where.key, file)
        _check_size(where, file.stat().st_size)
        return file.read_text(encoding="utf-8-sig", errors="replace")


def _check_size(where: S3Uri, size: int) -> None:
    if size > LARGEST:
        raise DocumentTooLarge(f"{where} has {size} bytes, and sagelet reads at most {LARGEST} of a document")


def read_json(objects: ObjectStore, principal: Principal, uri: str) -> Any:
    """Returns the JSON value of an object. Raises Unresolved, with the reason in plain words."""
    try:
        where = S3Uri.parse(uri)
    except ValueError as error:
        raise Unresolved(f"{uri} is not an S3 URI of the form s3://BUCKET/KEY") from error
    try:
        text = read_text(objects, principal, where)
    except (ObjectNotFound, ObjectDamaged, NotAuthorized) as error:
        raise Unresolved(f"{uri} cannot be read: {error}") from error
    except DocumentTooLarge as error:
        raise Unresolved(str(error)) from error
    return _parsed(text, uri)


def _parsed(text: str, uri: str) -> Any:
    def refuse(name: str) -> Any:
        raise Unresolved(f"{uri} is not JSON: it has {name}, which is not a number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise Unresolved(f"{uri} is not JSON (line {error.lineno}, column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise Unresolved(f"{uri} is nested too deep, or one of its numbers has too many digits") from error
