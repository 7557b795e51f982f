"""ListObjects, V1 and V2, and ListObjectVersions of buckets without versions."""

import base64
import binascii
from collections.abc import Callable
from urllib.parse import quote

from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import invalid_argument
from sagelet_api.services.s3.context import Context, owner, quoted
from sagelet_engine.s3 import listing
from sagelet_engine.s3.listing import Page
from sagelet_engine.s3.records import StoredObject

MAX_KEYS = 1000
Encode = Callable[[str | None], str | None]


def list_objects(context: Context, parameters: Parameters) -> Result:
    marker = parameters.get("Marker", "")
    found, limit = _page(context, parameters, marker)
    encode = encoder(parameters)
    delimiter = parameters.get("Delimiter")
    members = {
        **_common(context, parameters, found, encode),
        "Marker": encode(marker),
        "MaxKeys": limit,
        # Without a delimiter the client continues from the last key.
        "NextMarker": encode(found.last) if found.truncated and delimiter else None,
        "Contents": [_entry(stored, encode) | {"Owner": owner(context.account)} for stored in found.objects],
    }
    return Result(members)


def list_objects_v2(context: Context, parameters: Parameters) -> Result:
    token, start = parameters.get("ContinuationToken"), parameters.get("StartAfter", "")
    found, limit = _page(context, parameters, start if token is None else _position(token))
    encode = encoder(parameters)
    with_owner = {"Owner": owner(context.account)} if parameters.get("FetchOwner") else {}
    members = {
        **_common(context, parameters, found, encode),
        "MaxKeys": limit,
        "KeyCount": len(found.objects) + len(found.common_prefixes),
        "ContinuationToken": token,
        "NextContinuationToken": _token(found.last) if found.truncated else None,
        "StartAfter": encode(start) if start else None,
        "Contents": [_entry(stored, encode) | with_owner for stored in found.objects],
    }
    return Result(members)


def list_object_versions(context: Context, parameters: Parameters) -> Result:
    """Lists each object as its only version, `null`."""
    marker = parameters.get("KeyMarker", "")
    found, limit = _page(context, parameters, marker)
    encode = encoder(parameters)
    version = {"VersionId": "null", "IsLatest": True, "Owner": owner(context.account)}
    members = {
        **_common(context, parameters, found, encode),
        "KeyMarker": encode(marker),
        "VersionIdMarker": "",
        "MaxKeys": limit,
        "NextKeyMarker": encode(found.last) if found.truncated else None,
        "NextVersionIdMarker": "null" if found.truncated else None,
        "Versions": [_entry(stored, encode) | version for stored in found.objects],
    }
    return Result(members)


def _page(context: Context, parameters: Parameters, after: str) -> tuple[Page, int]:
    bucket = context.bucket(parameters)
    limit = min(parameters.get("MaxKeys", MAX_KEYS), MAX_KEYS)
    prefix, delimiter = parameters.get("Prefix", ""), parameters.get("Delimiter", "")
    return listing.page(context.store.catalog, bucket.name, prefix, delimiter, after, limit), limit


def _common(context: Context, parameters: Parameters, found: Page, encode: Encode) -> Output:
    return {
        "Name": context.request.bucket,
        "Prefix": encode(parameters.get("Prefix", "")),
        "Delimiter": encode(parameters.get("Delimiter")),
        "EncodingType": parameters.get("EncodingType"),
        "IsTruncated": found.truncated,
        "CommonPrefixes": [{"Prefix": encode(prefix)} for prefix in found.common_prefixes],
    }


def _entry(stored: StoredObject, encode: Encode) -> Output:
    algorithms = {"ChecksumAlgorithm": list(stored.checksums), "ChecksumType": stored.checksum_type}
    return {
        "Key": encode(stored.key),
        "LastModified": stored.modified_ms,
        "ETag": quoted(stored.etag),
        **(algorithms if stored.checksums else {}),
        "Size": stored.size,
        "StorageClass": stored.attributes.get("StorageClass", "STANDARD"),
    }


def encoder(parameters: Parameters) -> Encode:
    """Returns the encoder of keys: EncodingType url is for keys that XML cannot hold."""
    kind = parameters.get("EncodingType")
    if kind not in (None, "url"):
        raise invalid_argument("encoding-type", kind, "Invalid Encoding Method specified in Request")
    if kind is None:
        return lambda text: text
    return lambda text: None if text is None else quote(text, safe="/")


def _token(position: str) -> str:
    return base64.urlsafe_b64encode(position.encode()).decode()


def _position(token: str) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise invalid_argument("continuation-token", token, "The continuation token provided is incorrect") from error
