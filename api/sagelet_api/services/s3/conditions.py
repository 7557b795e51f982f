"""Conditional requests and ranges (RFC 9110, 13 and 14, as far as S3 follows it)."""

import re
from collections.abc import Mapping
from typing import Any

from sagelet_api.services.s3.errors import (
    S3Error,
    no_such_key,
    not_implemented,
    not_modified,
    precondition_failed,
)
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.store import Check

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def check_read(stored: StoredObject, parameters: Mapping[str, Any]) -> None:
    """Raises PreconditionFailed or NotModified. Times of S3 are whole seconds."""
    modified_ms = stored.modified_ms // 1000 * 1000
    match, since = parameters.get("IfMatch"), parameters.get("IfUnmodifiedSince")
    if match is not None:
        if not matches(match, stored.etag):
            raise precondition_failed("If-Match")
    elif since is not None and modified_ms > since:
        raise precondition_failed("If-Unmodified-Since")
    differs, since = parameters.get("IfNoneMatch"), parameters.get("IfModifiedSince")
    if differs is not None:
        if matches(differs, stored.etag):
            raise not_modified()
    elif since is not None and modified_ms <= since:
        raise not_modified()


def check_copy_source(stored: StoredObject, parameters: Mapping[str, Any]) -> None:
    """As `check_read`, by the headers x-amz-copy-source-if-*; what is not modified fails, too."""
    names = ("IfMatch", "IfNoneMatch", "IfModifiedSince", "IfUnmodifiedSince")
    try:
        check_read(stored, {name: parameters.get(f"CopySource{name}") for name in names})
    except S3Error as error:
        if error.status != 304:
            raise
        raise precondition_failed("x-amz-copy-source-If-None-Match") from error


def check_write(key: str, parameters: Mapping[str, Any]) -> Check:
    """The Check for If-Match and If-None-Match of a write. Raises S3Error for conditions that S3 has not, either."""
    match, differs = parameters.get("IfMatch"), parameters.get("IfNoneMatch")
    if differs is not None and differs != "*":
        raise not_implemented("A header you provided implies functionality that is not implemented: If-None-Match")

    def check(current: StoredObject | None) -> None:
        if differs is not None and current is not None:
            raise precondition_failed("If-None-Match")
        if match is not None and current is None:
            raise no_such_key(key)
        if match is not None and current is not None and not matches(match, current.etag):
            raise precondition_failed("If-Match")

    return check


def matches(condition: str, etag: str) -> bool:
    """Whether a list of entity tags (or `*`) has this one."""
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in condition.split(",")]
    return "*" in tags or etag in tags


def parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """First byte and length; None for the whole object, as for ranges that cannot be read, or several.

    Raises S3Error InvalidRange when there is no such byte.
    """
    match = _RANGE.fullmatch(text.strip()) if text else None
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        length = min(int(match[2]), size)
        first, last = size - length, size - 1
    else:
        first, last = int(match[1]), min(int(match[2] or size), size - 1)
        if match[2] and int(match[2]) < first:
            return None
    if first >= size or last < first:
        raise S3Error(
            "InvalidRange", 416, "The requested range is not satisfiable", RangeRequested=text, ActualObjectSize=size
        )
    return first, last - first + 1
