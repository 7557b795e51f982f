"""Multipart uploads over REST."""

import re
from itertools import pairwise

from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, invalid_request, malformed_xml
from sagelet_api.services.s3 import conditions, customer_keys
from sagelet_api.services.s3.bodies import Body
from sagelet_api.services.s3.context import Context, owner, quoted
from sagelet_api.services.s3.description import attributes, checksums, encryption, encryption_of, tags_of_header
from sagelet_api.services.s3.listings import encoder
from sagelet_api.services.s3.writing import open_source
from sagelet_engine.s3.checksums import ALGORITHMS, CRCS, DEFAULT
from sagelet_engine.s3.errors import NoSuchUpload
from sagelet_engine.s3.files import copy_bytes
from sagelet_engine.s3.multipart import NamedPart
from sagelet_engine.s3.records import COMPOSITE, FULL_OBJECT, Upload, UploadedPart

MAX_PART_NUMBER = 10_000
MAX_LISTED = 1000


def create_multipart_upload(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    algorithm, kind = parameters.get("ChecksumAlgorithm"), parameters.get("ChecksumType")
    if algorithm is not None and algorithm not in ALGORITHMS:
        raise invalid_request(
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types"
        )
    if kind == FULL_OBJECT and algorithm not in CRCS:
        raise invalid_request(f"The FULL_OBJECT checksum type cannot be used with the {algorithm} checksum algorithm.")
    if kind == COMPOSITE and algorithm in (None, DEFAULT):
        raise invalid_request(f"The COMPOSITE checksum type cannot be used with the {algorithm} checksum algorithm.")
    upload = context.uploads.begin(
        bucket.name,
        context.request.key,
        attributes=attributes(parameters, context.request.headers) | encryption_of(context, bucket, parameters),
        tags=tags_of_header(parameters.get("Tagging")),
        checksum_algorithm=algorithm,
        checksum_type=kind,
    )
    members = {
        "Bucket": bucket.name, "Key": upload.key, "UploadId": upload.id, **encryption(upload.attributes),
    }  # fmt: skip
    default = FULL_OBJECT if algorithm == DEFAULT else COMPOSITE
    return Result({**members, "ChecksumAlgorithm": algorithm, "ChecksumType": kind or (algorithm and default)})


def upload_part(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    upload, number = _upload(context, parameters), _number(parameters)
    customer_keys.check_part(upload, parameters)
    body = Body(context.request, default=upload.checksum_algorithm or DEFAULT)
    with context.uploads.part(upload, number, body.size, body.algorithms) as (staged, kept):
        sums = body.receive(staged)
    given = {f"Checksum{name}": value for name, value in sums.items()}
    return Result({"ETag": quoted(kept[0].etag), **given, **encryption(upload.attributes)})


def upload_part_copy(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    upload, number = _upload(context, parameters), _number(parameters)
    customer_keys.check_part(upload, parameters)
    source, data = open_source(context, parameters)
    with data:
        conditions.check_copy_source(source, parameters)
        first, length = _copied_range(parameters.get("CopySourceRange"), source.size)
        data.seek(first)
        algorithm = upload.checksum_algorithm or DEFAULT
        with context.uploads.part(upload, number, length, [algorithm]) as (staged, kept):
            copy_bytes(data, staged, length)
    part = kept[0]
    sums = {f"Checksum{name}": value for name, value in part.checksums.items()}
    result = {"ETag": quoted(part.etag), "LastModified": part.modified_ms, **sums}
    return Result({"CopyPartResult": result, **encryption(upload.attributes)})


def complete_multipart_upload(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    key, upload_id = context.request.key, parameters["UploadId"]
    parts = [_named(entry) for entry in parameters.get("MultipartUpload", {}).get("Parts", [])]
    if not parts:
        raise malformed_xml()
    if any(before.number >= after.number for before, after in pairwise(parts)):
        message = "The list of parts was not in ascending order. Parts must be ordered by part number."
        raise S3Error("InvalidPartOrder", 400, message, UploadId=upload_id)
    check = conditions.check_write(key, parameters)
    expected, size = _expected(parameters), parameters.get("MpuObjectSize")
    try:
        stored = context.uploads.complete(
            _upload(context, parameters), parts, check=check, expected=expected, size=size
        )
    except NoSuchUpload:
        # A client repeats a call that it got no answer to. The same parts again are not an error, and cause no
        # notification.
        stored = context.uploads.completed(bucket.name, key, upload_id, parts, expected=expected, size=size)
    else:
        context.tell(bucket, "CompleteMultipartUpload", stored)
    location = f"http://{context.request.call.headers.get('host', 'localhost')}/{bucket.name}/{stored.key}"
    members = {"Location": location, "Bucket": bucket.name, "Key": stored.key, "ETag": quoted(stored.etag)}
    return Result({**members, **checksums(stored), **encryption(stored.attributes)})


def abort_multipart_upload(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    context.uploads.abort(_upload(context, parameters))
    return Result()


def list_parts(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    upload = _upload(context, parameters)
    marker = int(parameters.get("PartNumberMarker") or 0)
    limit = min(parameters.get("MaxParts", MAX_LISTED), MAX_LISTED)
    left = [part for part in context.uploads.parts(upload) if part.number > marker]
    page = left[:limit]
    who = owner(context.account)
    members = {
        "Bucket": upload.bucket, "Key": upload.key, "UploadId": upload.id, "PartNumberMarker": marker,
        "NextPartNumberMarker": page[-1].number if page else 0, "MaxParts": limit, "IsTruncated": len(left) > limit,
        "Parts": [_part(part) for part in page], "Initiator": who, "Owner": who, "StorageClass": "STANDARD",
        "ChecksumAlgorithm": upload.checksum_algorithm, "ChecksumType": upload.checksum_type,
    }  # fmt: skip
    return Result(members)


def list_multipart_uploads(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    encode = encoder(parameters)
    prefix, delimiter = parameters.get("Prefix", ""), parameters.get("Delimiter", "")
    marker, id_marker = parameters.get("KeyMarker", ""), parameters.get("UploadIdMarker", "")
    limit = min(parameters.get("MaxUploads", MAX_LISTED), MAX_LISTED)
    uploads = [upload for upload in context.store.catalog.uploads(bucket.name) if upload.key.startswith(prefix)]
    if id_marker and any(upload.id == id_marker for upload in uploads):
        place = next(place for place, upload in enumerate(uploads) if upload.id == id_marker)
        uploads = uploads[place + 1 :]
    else:
        uploads = [upload for upload in uploads if upload.key.encode() > marker.encode()]
    alone = [upload for upload in uploads if not delimiter or delimiter not in upload.key[len(prefix) :]]
    groups = sorted({_group(upload.key, prefix, delimiter) for upload in uploads if upload not in alone})
    page = alone[:limit]
    more = len(alone) > limit
    members = {
        "Bucket": bucket.name, "KeyMarker": encode(marker), "UploadIdMarker": id_marker, "Prefix": encode(prefix),
        "Delimiter": encode(delimiter or None), "MaxUploads": limit, "IsTruncated": more,
        "NextKeyMarker": encode(page[-1].key) if more and page else None,
        "NextUploadIdMarker": page[-1].id if more and page else None,
        "EncodingType": parameters.get("EncodingType"),
        "CommonPrefixes": [{"Prefix": encode(group)} for group in groups],
        "Uploads": [_listed(context, upload) | {"Key": encode(upload.key)} for upload in page],
    }  # fmt: skip
    return Result(members)


def _group(key: str, prefix: str, delimiter: str) -> str:
    return key[: key.index(delimiter, len(prefix)) + len(delimiter)]


def _listed(context: Context, upload: Upload) -> Output:
    who = owner(context.account)
    return {
        "UploadId": upload.id, "Initiated": upload.initiated_ms, "Initiator": who, "Owner": who,
        "StorageClass": upload.attributes.get("StorageClass", "STANDARD"),
        "ChecksumAlgorithm": upload.checksum_algorithm, "ChecksumType": upload.checksum_type,
    }  # fmt: skip


def _part(part: UploadedPart) -> Output:
    sums = {f"Checksum{name}": value for name, value in part.checksums.items()}
    members = {"PartNumber": part.number, "LastModified": part.modified_ms, "ETag": quoted(part.etag)}
    return {**members, "Size": part.size, **sums}


def _upload(context: Context, parameters: Parameters) -> Upload:
    return context.store.catalog.upload(context.request.bucket, context.request.key, parameters["UploadId"])


def _number(parameters: Parameters) -> int:
    number: int = parameters["PartNumber"]
    if not 1 <= number <= MAX_PART_NUMBER:
        message = f"Part number must be an integer between 1 and {MAX_PART_NUMBER}, inclusive"
        raise invalid_argument("partNumber", number, message)
    return number


def _named(entry: Request) -> NamedPart:
    if "PartNumber" not in entry or "ETag" not in entry:
        raise malformed_xml()
    sums = {name: entry[f"Checksum{name}"] for name in ALGORITHMS if f"Checksum{name}" in entry}
    return NamedPart(entry["PartNumber"], entry["ETag"].strip('"'), sums)


def _expected(parameters: Parameters) -> dict[str, str]:
    """Returns the checksum of the whole that the client gives."""
    return {name: parameters[f"Checksum{name}"] for name in ALGORITHMS if f"Checksum{name}" in parameters}


def _copied_range(text: str | None, size: int) -> tuple[int, int]:
    if text is None:
        return 0, size
    is_range = re.match(r"bytes=[0-9]", text) is not None
    span = conditions.parse_range(text, size) if is_range else None
    last = text.rpartition("-")[2]
    if span is None or not (last.isascii() and last.isdigit()) or conditions.number(last) >= size:
        message = f"Range specified is not valid for source object of size: {size}"
        raise invalid_argument("x-amz-copy-source-range", text, message)
    return span
