"""GetObject, HeadObject and the other operations that read one object."""

from sagelet_api.protocol.file_body import FileBody
from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import NotModified, S3Error, invalid_argument, invalid_request
from sagelet_api.services.s3 import conditions, customer_keys
from sagelet_api.services.s3.context import Context
from sagelet_api.services.s3.description import checked_tags, checksums, described
from sagelet_engine.s3.records import ObjectPart, StoredObject

MAX_PARTS_LISTED = 1000
#: Headers that a cache uses, and that a 304 must repeat (RFC 9110, 15.4.5).
_OF_UNCHANGED = ("ETag", "LastModified", "CacheControl", "Expires")


def get_object(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    conditions.refuse_version(parameters.get("VersionId"))
    may_read = customer_keys.reader(parameters)
    stored, data = context.store.open(context.request.bucket, context.request.key, may_read)
    try:
        members, status, (first, length) = _answer(stored, parameters)
    except BaseException:
        data.close()
        raise
    return Result({**members, "Body": FileBody(data, first, length)}, status)


def head_object(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    conditions.refuse_version(parameters.get("VersionId"))
    stored = context.store.head(context.request.bucket, context.request.key)
    customer_keys.reader(parameters)(stored)
    members, status, _ = _answer(stored, parameters)
    return Result(members, status)


def get_object_tagging(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    stored = context.store.head(context.request.bucket, context.request.key)
    return Result({"TagSet": [{"Key": key, "Value": value} for key, value in sorted(stored.tags.items())]})


def put_object_tagging(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    pairs = [(tag.get("Key", ""), tag.get("Value", "")) for tag in parameters["Tagging"].get("TagSet", [])]
    context.store.retag(context.request.bucket, context.request.key, checked_tags(pairs))
    return Result()


def delete_object_tagging(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    context.store.retag(context.request.bucket, context.request.key, {})
    return Result()


def get_object_attributes(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    stored = context.store.head(context.request.bucket, context.request.key)
    customer_keys.reader(parameters)(stored)
    everything = {
        "ETag": stored.etag,
        "Checksum": checksums(stored),
        "ObjectParts": _object_parts(stored, parameters) if stored.parts else None,
        "StorageClass": stored.attributes.get("StorageClass", "STANDARD"),
        "ObjectSize": stored.size,
    }
    wanted = parameters.get("ObjectAttributes")
    if not wanted:
        raise invalid_request(
            "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty"
        )
    for name in wanted:
        if name not in everything:
            raise invalid_argument("x-amz-object-attributes", name, "Invalid attribute name specified.")
    return Result({"LastModified": stored.modified_ms} | {name: everything[name] for name in wanted})


def _object_parts(stored: StoredObject, parameters: Parameters) -> Output:
    marker, limit = int(parameters.get("PartNumberMarker", 0)), parameters.get("MaxParts", MAX_PARTS_LISTED)
    left = [part for part in stored.parts if part.number > marker]
    page = left[:limit]
    return {
        "TotalPartsCount": len(stored.parts),
        "PartNumberMarker": marker,
        "NextPartNumberMarker": page[-1].number if page else marker,
        "MaxParts": limit,
        "IsTruncated": len(left) > limit,
        "Parts": [{"PartNumber": part.number, "Size": part.size, **_part_checksums(part)} for part in page],
    }


def _part_checksums(part: ObjectPart) -> dict[str, str]:
    return {f"Checksum{name}": value for name, value in part.checksums.items()}


def _answer(stored: StoredObject, parameters: Parameters) -> tuple[Output, int, tuple[int, int]]:
    """Returns members, status, and the range of bytes: first and length."""
    members = described(stored, parameters)
    if conditions.unchanged(stored, parameters):
        raise NotModified({name: members[name] for name in _OF_UNCHANGED})
    number = parameters.get("PartNumber")
    chosen = _part(stored, number) if number is not None else None
    span = chosen or conditions.parse_range(parameters.get("Range"), stored.size)
    first, length = span or (0, stored.size)
    members["ContentLength"] = length
    if number is not None and stored.parts:
        members["PartsCount"] = len(stored.parts)
    if span is not None:
        members["ContentRange"] = f"bytes {first}-{first + length - 1}/{stored.size}"
    if parameters.get("ChecksumMode") == "ENABLED" and length == stored.size:
        members |= checksums(stored)
    return members, 200 if span is None else 206, (first, length)


def _part(stored: StoredObject, number: int) -> tuple[int, int]:
    """Returns the bytes that came as a part. An object that came whole has one part."""
    offset = 0
    for place, part in enumerate(stored.parts or (ObjectPart(1, stored.size),), 1):
        if place == number:
            return offset, part.size
        offset += part.size
    raise S3Error("InvalidPartNumber", 416, "The requested partnumber is not satisfiable", PartNumberRequested=number)
