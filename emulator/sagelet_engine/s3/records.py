"""What the catalogue knows about buckets, objects and multipart uploads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FULL_OBJECT = "FULL_OBJECT"
COMPOSITE = "COMPOSITE"


@dataclass(frozen=True)
class Bucket:
    #: Names of buckets are unique over all accounts and regions.
    name: str
    account: str
    region: str
    created_ms: int


@dataclass(frozen=True)
class ObjectPart:
    """One part of an object that came as a multipart upload."""

    number: int
    size: int
    #: Base64, by algorithm.
    checksums: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredObject:
    bucket: str
    key: str
    #: Identifies these bytes for all time. A key that is written again gets another one.
    file_id: str
    #: Where the bytes are, relative to the store's directory.
    path: str
    #: Bytes.
    size: int
    #: Without quotes: the MD5, or the MD5 of the parts' MD5s with the number of parts.
    etag: str
    modified_ms: int
    #: What the client said about the object (content type, user metadata, ...).
    attributes: Mapping[str, Any] = field(default_factory=dict)
    #: Base64, by algorithm.
    checksums: Mapping[str, str] = field(default_factory=dict)
    #: FULL_OBJECT or COMPOSITE.
    checksum_type: str = FULL_OBJECT
    tags: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[ObjectPart, ...] = ()
    #: The mtime of a file that is shared with an imported directory. It shows a change from outside.
    linked_ns: int | None = None

    @property
    def customer_key(self) -> str | None:
        """The MD5 of the customer's key (SSE-C) that a reader must have. None: anybody who may read it can."""
        key: str | None = self.attributes.get("SSECustomerKeyMD5")
        return key


@dataclass(frozen=True)
class Upload:
    """A multipart upload that is under way."""

    id: str
    bucket: str
    key: str
    #: The file that the parts are written into, each into its slot.
    file_id: str
    initiated_ms: int
    #: Bytes of a slot: the size of the part that came first. None before the first part.
    slot: int | None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    checksum_algorithm: str | None = None
    checksum_type: str | None = None


@dataclass(frozen=True)
class UploadedPart:
    number: int
    size: int
    #: The part's MD5.
    etag: str
    modified_ms: int
    checksums: Mapping[str, str] = field(default_factory=dict)
    #: A file of its own. None if the part is in its slot of the upload's file.
    file_id: str | None = None
