"""What the store keeps of a client's metadata about an object, and how S3 returns it.

Server-side encryption is a part of it: it is reported but not done, since the disk is the user's own. What came with a
customer's key needs it (`customer_keys.py`). An object has the
encryption that its request names, otherwise its bucket's default at that moment: what PutBucketEncryption has set, or
SSE-S3, as on AWS since January 2023.
"""

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from sagelet_api.protocol.header_rules import is_name, is_value
from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, invalid_request
from sagelet_api.services.s3 import customer_keys
from sagelet_api.services.s3.acls import check_acl
from sagelet_api.services.s3.context import ENCRYPTION, Context, OtherServices, quoted
from sagelet_engine.s3.records import Bucket, StoredObject
from sagelet_engine.s3.store import S3Store

#: Members of PutObject (and of CreateMultipartUpload and CopyObject) that come back with the object.
KEPT = (
    "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType", "Expires", "Metadata",
    "WebsiteRedirectLocation", "StorageClass",
)  # fmt: skip
_OVERRIDES = (
    "CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType", "Expires",
)  # fmt: skip
#: Members about encryption, of the same requests and of answers about their objects.
ENCRYPTION_MEMBERS = (
    "ServerSideEncryption", "SSEKMSKeyId", "SSEKMSEncryptionContext", "BucketKeyEnabled", "SSECustomerAlgorithm",
    "SSECustomerKeyMD5",
)  # fmt: skip
ENCRYPTION_ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")
_SSE_S3 = {"ServerSideEncryption": "AES256"}
_WITHOUT_KMS = (
    "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms"
)
_TWO_METHODS = "Server Side Encryption with Customer provided key is incompatible with the encryption method specified"
MAX_METADATA = 2048
MAX_TAGS = 10
_TAG = re.compile(r"[\w\s+\-=.:/@]*")


def attributes(parameters: Request, headers: Mapping[str, str]) -> Parameters:
    """Returns the metadata to keep. Raises S3Error for features that this store does not have, and for too much
    metadata.
    """
    check_acl(parameters)
    if any(name.startswith("ObjectLock") for name in parameters):
        raise invalid_request("Bucket is missing Object Lock Configuration")
    kept = {name: parameters[name] for name in KEPT if parameters.get(name) is not None}
    if "expires" in headers:
        # As the client wrote it, even if it is not a date.
        kept["Expires"] = headers["expires"]
    if "ContentEncoding" in kept:
        encodings = [part.strip() for part in kept["ContentEncoding"].split(",") if part.strip() != "aws-chunked"]
        kept["ContentEncoding"] = ",".join(encodings) or None
    size = sum(len(name) + len(value.encode("latin-1", "replace")) for name, value in kept.get("Metadata", {}).items())
    if size > MAX_METADATA:
        message = "Your metadata headers exceed the maximum allowed metadata size"
        raise S3Error("MetadataTooLarge", 400, message, Size=size, MaxSizeAllowed=MAX_METADATA)
    return {"ContentType": "binary/octet-stream"} | kept


def encryption_of(context: Context, bucket: Bucket, parameters: Request) -> Output:
    """Returns the encryption of an object that a request makes. Raises S3Error for one that S3 does not have."""
    named = {name: parameters[name] for name in ENCRYPTION_MEMBERS if parameters.get(name) is not None}
    algorithm = named.get("ServerSideEncryption")
    if algorithm is not None and algorithm not in ENCRYPTION_ALGORITHMS:
        raise _refused_encryption(algorithm, "The encryption method specified is not supported")
    if (key := customer_keys.named(parameters)) is not None:
        if algorithm is not None:
            raise _refused_encryption(algorithm, _TWO_METHODS)
        return {"SSECustomerAlgorithm": "AES256", "SSECustomerKeyMD5": key}
    if "SSEKMSKeyId" in named and algorithm in (None, "AES256"):
        raise _refused_encryption(algorithm or "", _WITHOUT_KMS)
    if algorithm is None:
        return default_encryption(context.store, context.others, bucket)
    if algorithm == "AES256":
        return dict(_SSE_S3)
    return {**named, "SSEKMSKeyId": context.others.kms_key(bucket, named.get("SSEKMSKeyId"))}


def default_encryption(store: S3Store, others: OtherServices, bucket: Bucket) -> Output:
    """Returns the encryption of objects whose requests name none."""
    configured = store.catalog.configuration(bucket.name, ENCRYPTION).get("")
    rule = configured["Rules"][0] if configured else {}
    found = rule.get("ApplyServerSideEncryptionByDefault", {})
    algorithm = found.get("SSEAlgorithm", "AES256")
    if algorithm == "AES256":
        return dict(_SSE_S3)
    key = others.kms_key(bucket, found.get("KMSMasterKeyID"))
    with_bucket_key = {"BucketKeyEnabled": True} if rule.get("BucketKeyEnabled") else {}
    return {"ServerSideEncryption": algorithm, "SSEKMSKeyId": key, **with_bucket_key}


def _refused_encryption(algorithm: str, message: str) -> S3Error:
    return invalid_argument("x-amz-server-side-encryption", algorithm, message)


def tags_of_header(text: str | None) -> dict[str, str]:
    """Parses `x-amz-tagging: a=1&b=2`. Raises S3Error."""
    pairs = parse_qsl(text or "", keep_blank_values=True)
    return checked_tags(pairs)


def checked_tags(pairs: list[tuple[str, str]], *, most: int = MAX_TAGS, of: str = "Object") -> dict[str, str]:
    """Returns the tags. Raises S3Error InvalidTag, BadRequest."""
    if len(pairs) > most:
        raise S3Error("BadRequest", 400, f"{of} tags cannot be greater than {most}")
    tags = dict(pairs)
    if len(tags) != len(pairs):
        raise S3Error("InvalidTag", 400, "Cannot provide multiple Tags with the same key")
    for key, value in pairs:
        if not 0 < len(key) <= 128 or not _TAG.fullmatch(key) or key.lower().startswith("aws:"):
            raise S3Error("InvalidTag", 400, "The TagKey you have provided is invalid", TagKey=key)
        if len(value) > 256 or not _TAG.fullmatch(value):
            raise S3Error("InvalidTag", 400, "The TagValue you have provided is invalid", TagValue=value)
    return tags


def described(stored: StoredObject, parameters: Request) -> Output:
    """Returns the headers of GetObject and HeadObject, except those about the range."""
    members: Output = {
        **_sayable(stored.attributes),
        **encryption(stored.attributes),
        "ETag": quoted(stored.etag),
        "LastModified": stored.modified_ms,
        "AcceptRanges": "bytes",
        "TagCount": len(stored.tags) or None,
    }
    if members.get("StorageClass") == "STANDARD":
        del members["StorageClass"]
    for name in _OVERRIDES:
        members[name] = parameters.get(f"Response{name}", members.get(name))
    return members


def checksums(stored: StoredObject) -> dict[str, str]:
    """Returns the members ChecksumCRC32, ... and ChecksumType."""
    if not stored.checksums:
        return {}
    return {f"Checksum{name}": value for name, value in stored.checksums.items()} | {
        "ChecksumType": stored.checksum_type
    }


def encryption(kept: Request) -> Output:
    """Returns the encryption in the attributes. Attributes without any are of SSE-S3."""
    said = _sayable(kept)
    return {name: said[name] for name in ENCRYPTION_MEMBERS if name in said} or _SSE_S3


def _sayable(kept: Request) -> Output:
    """Returns the attributes that can be headers. An imported catalogue may have any.

    Metadata that cannot be a header is counted, as S3 counts SOAP's.
    """
    said = {name: value for name, value in kept.items() if not isinstance(value, str) or is_value(value)}
    metadata = kept.get("Metadata") or {}
    legal = {name: value for name, value in metadata.items() if is_name(f"x-amz-meta-{name}") and is_value(value)}
    if len(legal) < len(metadata):
        said |= {"Metadata": legal, "MissingMeta": len(metadata) - len(legal)}
    return said
