"""Conditional requests and ranges (RFC 9110, 13 and 14, as far as S3 follows it)."""

import re

from sagelet_api.protocol.members import Request
from sagelet_api.protocol.s3.errors import (
    S3Error,
    header_not_implemented,
    invalid_argument,
    no_such_key,
    precondition_failed,
)
from sagelet_engine.s3.group_commit import Check
from sagelet_engine.s3.records import StoredObject

#: Conditions of a deletion that directory buckets obey, and general purpose buckets refuse (API reference).
_OF_DIRECTORY_BUCKETS = {
    "IfMatchLastModifiedTime": "x-amz-if-match-last-modified-time",
    "IfMatchSize": "x-amz-if-match-size",
}
#: The same conditions in the XML of DeleteObjects.
_OF_ENTRIES = {
    "ETag": "IfMatch", "LastModifiedTime": "IfMatchLastModifiedTime", "Size": "IfMatchSize", "VersionId": "VersionId",
}  # fmt: skip
_RANGE = re.compile(r"bytes=([0-9]*)-([0-9]*)")
#: As many digits as the position of any byte can have.
_MOST_DIGITS = 18


def unchanged(stored: StoredObject, parameters: Request) -> bool:
    """True if the reader has the object as it is. Raises PreconditionFailed. S3's times are whole seconds."""
    modified_ms = stored.modified_ms // 1000 * 1000
    match, since = parameters.get("IfMatch"), parameters.get("IfUnmodifiedSince")
    if match is not None:
        if not matches(match, stored.etag):
            raise precondition_failed("If-Match")
    elif since is not None and modified_ms > since:
        raise precondition_failed("If-Unmodified-Since")
    differs, since = parameters.get("IfNoneMatch"), parameters.get("IfModifiedSince")
    if differs is not None:
        return matches(differs, stored.etag)
    return since is not None and modified_ms <= since


def check_copy_source(stored: StoredObject, parameters: Request) -> None:
    """Checks the headers x-amz-copy-source-if-*, like `unchanged`. A source that is not modified is an error, too."""
    names = ("IfMatch", "IfNoneMatch", "IfModifiedSince", "IfUnmodifiedSince")
    if unchanged(stored, {name: parameters.get(f"CopySource{name}") for name in names}):
        raise precondition_failed("x-amz-copy-source-If-None-Match")


def check_write(key: str, parameters: Request) -> Check:
    """Returns the Check for If-Match and If-None-Match of a write. Raises S3Error for conditions that S3 does not have
    either.
    """
    match, differs = parameters.get("IfMatch"), parameters.get("IfNoneMatch")
    if differs is not None and differs != "*":
        raise header_not_implemented("If-None-Match")

    def check(current: StoredObject | None) -> None:
        if differs is not None and current is not None:
            raise precondition_failed("If-None-Match")
        if match is not None and current is None:
            raise no_such_key(key)
        if match is not None and current is not None and not matches(match, current.etag):
            raise precondition_failed("If-Match")

    return check


def check_deletion(key: str, parameters: Request) -> Check:
    """Returns the Check of DeleteObject. Raises S3Error for conditions and versions that only other buckets have."""
    for name, header in _OF_DIRECTORY_BUCKETS.items():
        if name in parameters:
            raise header_not_implemented(header)
    refuse_version(parameters.get("VersionId"))
    return check_write(key, parameters)


def check_deletion_of_many(entry: Request) -> Check:
    """Returns the Check of one object of DeleteObjects, like `check_deletion`."""
    named = {wanted: entry[name] for name, wanted in _OF_ENTRIES.items() if name in entry}
    return check_deletion(entry["Key"], named)


def refuse_version(version: str | None) -> None:
    """Raises S3Error for any version but `null`, the only version of an object."""
    if version not in (None, "", "null"):
        raise invalid_argument("versionId", version, "Invalid version id specified")


def matches(condition: str, etag: str) -> bool:
    """True if a list of entity tags (or `*`) has this one."""
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in condition.split(",")]
    return "*" in tags or etag in tags


def parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """Returns first byte and length, or None for the whole object, which is also the answer to unreadable or several
    ranges.

    Raises S3Error InvalidRange if there is no such byte.
    """
    match = _RANGE.fullmatch(text.strip()) if text else None
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        length = min(number(match[2]), size)
        first, last = size - length, size - 1
    else:
        first = number(match[1])
        last = min(number(match[2]), size - 1) if match[2] else size - 1
        if match[2] and number(match[2]) < first:
            return None
    if first >= size or last < first:
        raise S3Error(
            "InvalidRange", 416, "The requested range is not satisfiable", RangeRequested=text, ActualObjectSize=size
        )
    return first, last - first + 1


def number(digits: str) -> int:
    """Returns the number. One with more digits than the size of any object is larger than all of them."""
    return int(digits.lstrip("0")[:_MOST_DIGITS] or "0")
