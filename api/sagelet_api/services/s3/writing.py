"""PutObject, CopyObject and the deletions."""

from collections.abc import Sequence
from typing import Any, BinaryIO

from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, invalid_request, malformed_xml
from sagelet_api.protocol.s3.request import copy_source
from sagelet_api.services.s3 import conditions, customer_keys
from sagelet_api.services.s3.bodies import MAX_PUT, Body
from sagelet_api.services.s3.context import Context, quoted
from sagelet_api.services.s3.description import (
    ENCRYPTION_MEMBERS,
    attributes,
    checksums,
    encryption,
    encryption_of,
    tags_of_header,
)
from sagelet_engine.s3.files import clone, copy_bytes, copy_range
from sagelet_engine.s3.group_commit import Check
from sagelet_engine.s3.records import FULL_OBJECT, StoredObject
from sagelet_engine.s3.staged import rest
from sagelet_engine.s3.store import S3Store

MAX_DELETED = 1000


def put_object(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    kept = attributes(parameters, context.request.headers) | encryption_of(context, bucket, parameters)
    tags = tags_of_header(parameters.get("Tagging"))
    check = conditions.check_write(context.request.key, parameters)
    body = Body(context.request)
    if parameters.get("WriteOffsetBytes") is not None:
        raise invalid_request("WriteOffsetBytes is for directory buckets only")
    with context.store.stage(body.algorithms) as staged:
        sums = body.receive(staged)
        stored = context.store.put(
            bucket.name, context.request.key, staged, check=check, attributes=kept, tags=tags, checksums=sums
        )
    context.tell(bucket, "Put", stored)
    return Result({"ETag": quoted(stored.etag), **checksums(stored), **encryption(stored.attributes)})


def copy_object(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    source, data = open_source(context, parameters)
    with data:
        conditions.check_copy_source(source, parameters)
        members = _copied_members(context, parameters, source)
        members["attributes"] |= encryption_of(context, bucket, parameters)
        check = conditions.check_write(context.request.key, parameters)
        if source.size > MAX_PUT:
            raise invalid_request(
                f"The specified copy source is larger than the maximum allowable size for a copy source: {MAX_PUT}"
            )
        algorithm = parameters.get("ChecksumAlgorithm")
        if source.parts or "-" in source.etag or algorithm not in (None, *source.checksums):
            stored = _copy_anew(context, source, data, algorithm, check=check, **members)
        else:
            stored = _copy_blocks(context.store, context.request.key, bucket.name, source, data, check, members)
    context.tell(bucket, "Copy", stored)
    result = {"ETag": quoted(stored.etag), "LastModified": stored.modified_ms, **checksums(stored)}
    return Result({"CopyObjectResult": result, **encryption(stored.attributes)})


def open_source(context: Context, parameters: Parameters) -> tuple[StoredObject, BinaryIO]:
    """Opens the object that x-amz-copy-source names. Raises S3Error."""
    name, key, query = copy_source(parameters["CopySource"])
    if not name or not key:
        raise invalid_argument("x-amz-copy-source", parameters["CopySource"], "Invalid copy source object key")
    version = query.removeprefix("versionId=")
    if version not in ("", "null"):
        raise invalid_argument("x-amz-copy-source", parameters["CopySource"], "Invalid version id specified")
    context.bucket(parameters, name)
    return context.store.open(name, key, customer_keys.reader(parameters, customer_keys.SOURCE))


def delete_object(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    check = conditions.check_deletion(context.request.key, parameters)

    def spare(_key: str, current: StoredObject | None) -> bool:
        check(current)
        return False

    context.tell(bucket, "Delete", *context.store.delete(bucket.name, [context.request.key], spare=spare))
    return Result()


def delete_objects(context: Context, parameters: Parameters) -> Result:
    """Deletes objects in one transaction, except those whose conditions do not hold. A missing key counts as
    deleted.
    """
    bucket = context.bucket(parameters)
    request = parameters["Delete"]
    entries = named_objects(parameters)
    keys = [entry["Key"] for entry in entries]
    spared = _Spared(entries)
    context.tell(bucket, "Delete", *context.store.delete(bucket.name, keys, spare=spared))
    deleted = [{"Key": key} for key in keys if key not in spared.errors]
    return Result({"Deleted": [] if request.get("Quiet") else deleted, "Errors": [*spared.errors.values()]})


def named_objects(parameters: Request) -> list[Parameters]:
    """Returns the entries of a DeleteObjects. Raises S3Error."""
    entries: list[Parameters] = parameters["Delete"].get("Objects", [])
    if not 0 < len(entries) <= MAX_DELETED or not all(entry.get("Key") for entry in entries):
        raise malformed_xml()
    return entries


class _Spared:
    """A Spare for DeleteObjects: an object stays if its conditions do not hold. Raises S3Error for bad conditions.

    A key may be named more than once; then all of its conditions must hold.
    """

    def __init__(self, entries: Sequence[Request]) -> None:
        self.errors: dict[str, dict[str, str]] = {}
        self._checks: dict[str, list[Check]] = {}
        for entry in entries:
            self._checks.setdefault(entry["Key"], []).append(conditions.check_deletion_of_many(entry))

    def __call__(self, key: str, current: StoredObject | None) -> bool:
        try:
            for check in self._checks[key]:
                check(current)
        except S3Error as error:
            self.errors[key] = {"Key": key, "Code": error.code, "Message": error.message}
            return True
        return False


def _copied_members(context: Context, parameters: Parameters, source: StoredObject) -> Output:
    """Returns attributes and tags of the copy, by the two directives. Its encryption is never the source's."""
    fresh = attributes(parameters, context.request.headers)
    for name in ("MetadataDirective", "TaggingDirective"):
        if parameters.get(name) not in (None, "COPY", "REPLACE"):
            raise invalid_argument(f"x-amz-{name}", parameters[name], "Unknown directive.")
    replaced = parameters.get("MetadataDirective") == "REPLACE"
    same = (source.bucket, source.key) == (context.request.bucket, context.request.key)
    changes = ("StorageClass", "ServerSideEncryption", "SSECustomerAlgorithm", "WebsiteRedirectLocation")
    if same and not replaced and not any(name in parameters for name in changes):
        raise invalid_request(
            "This copy request is illegal because it is trying to copy an object to itself without changing the "
            "object's metadata, storage class, website redirect location or encryption attributes."
        )
    if not replaced:
        given = {name: value for name, value in fresh.items() if name in changes}
        left = (*changes, *ENCRYPTION_MEMBERS)
        fresh = {name: value for name, value in source.attributes.items() if name not in left} | given
    tags = source.tags
    if parameters.get("TaggingDirective") == "REPLACE":
        tags = tags_of_header(parameters.get("Tagging"))
    return {"attributes": fresh, "tags": tags}


def _copy_blocks(
    store: S3Store, key: str, bucket: str, source: StoredObject, data: BinaryIO, check: Any, members: Output
) -> StoredObject:
    """Copies bytes whose digests are known: the blocks are shared, or copied within the kernel."""
    with store.stage() as staged:
        target = store.files.staged(staged.file_id)
        staged.close()
        with target.open("r+b") as out:
            if not clone(data.fileno(), out.fileno()):
                copy_range(data.fileno(), out.fileno(), 0, source.size)
            rest(out.fileno())
        return store.commit(
            bucket, key, staged.file_id, source.size, check=check,
            etag=source.etag, checksums=source.checksums, checksum_type=FULL_OBJECT, **members,
        )  # fmt: skip


def _copy_anew(
    context: Context, source: StoredObject, data: BinaryIO, algorithm: str | None, **members: Any
) -> StoredObject:
    """Copies bytes whose digests must be computed: the object came in parts, or has another checksum."""
    wanted = [algorithm] if algorithm else list(source.checksums)
    with context.store.stage(wanted) as staged:
        copy_bytes(data, staged, source.size)
        return context.store.put(context.request.bucket, context.request.key, staged, **members)
