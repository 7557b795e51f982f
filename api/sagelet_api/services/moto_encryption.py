"""A bucket's default encryption as moto keeps it (XML's texts), and as S3's model has it."""

from collections.abc import Mapping
from typing import Any

#: The key that S3 takes where none is named.
OWN = "alias/aws/s3"


def rule(kept: Mapping[str, Any]) -> dict[str, Any]:
    """A member of ServerSideEncryptionConfiguration's Rules."""
    found = kept["Rule"]
    with_key = str(found.get("BucketKeyEnabled", "")).lower() == "true"
    return {**found, "BucketKeyEnabled": with_key}


def configuration(rule: Mapping[str, Any]) -> dict[str, Any]:
    with_key = "true" if rule.get("BucketKeyEnabled") else "false"
    return {"Rule": {**rule, "BucketKeyEnabled": with_key}}


def alias(name: str | None) -> str | None:
    """`alias/...`, of a key's name or ARN; None for what is no alias."""
    if name is None:
        return OWN
    last = name.rpartition(":")[2]
    return last if last.startswith("alias/") else None
