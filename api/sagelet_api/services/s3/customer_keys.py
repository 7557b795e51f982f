"""SSE-C: an object that came with a customer's key is read, copied and appended to with that key only.

Nothing is encrypted. Of the key its MD5 is kept, which S3 says back, too. S3's rules and texts: "Using server-side
encryption with customer-provided keys" (S3 user guide); MinIO's table of errors, which quotes S3's, has the texts.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable

from sagelet_api.protocol.members import Request
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, invalid_request
from sagelet_engine.s3.records import StoredObject, Upload

#: The members of a request about an object, and about the source of a copy.
OBJECT, SOURCE = "SSECustomer", "CopySourceSSECustomer"
#: Bytes of a key for AES256.
_KEY = 32
_REQUESTS = "Requests specifying Server Side Encryption with Customer provided keys must provide"
_HEADERS = {
    OBJECT: "x-amz-server-side-encryption-customer",
    SOURCE: "x-amz-copy-source-server-side-encryption-customer",
}


def named(parameters: Request, members: str = OBJECT) -> str | None:
    """Returns the MD5 of the key in a request, or None for a request without one. Raises S3Error for half a key, and
    for one that is not what it says.
    """
    algorithm, key, digest = (parameters.get(f"{members}{name}") for name in ("Algorithm", "Key", "KeyMD5"))
    if algorithm is key is digest is None:
        return None
    header = _HEADERS[members]
    if algorithm is None:
        raise invalid_argument(f"{header}-algorithm", "null", f"{_REQUESTS} a valid encryption algorithm.")
    if algorithm != "AES256":
        message = "The Encryption request you specified is not valid. Supported value: AES256."
        raise S3Error("InvalidEncryptionAlgorithmError", 400, message)
    if key is None:
        raise invalid_argument(f"{header}-key", "null", f"{_REQUESTS} an appropriate secret key.")
    if digest is None:
        message = f"{_REQUESTS} the client calculated MD5 of the secret key."
        raise invalid_argument(f"{header}-key-MD5", "null", message)
    try:
        secret = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != _KEY:
        message = "The secret key was invalid for the specified algorithm."
        raise invalid_argument(f"{header}-algorithm", algorithm, message)
    computed = base64.b64encode(hashlib.md5(secret, usedforsecurity=False).digest()).decode()
    if computed != digest:
        message = "The calculated MD5 hash of the key did not match the hash that was provided."
        raise invalid_argument(f"{header}-key-MD5", digest, message)
    return computed


def reader(parameters: Request, members: str = OBJECT) -> Callable[[StoredObject], None]:
    """Returns a check of an object that a request reads. It raises S3Error unless the request has the object's key."""
    given = named(parameters, members)

    def check(stored: StoredObject) -> None:
        if stored.customer_key == given:
            return
        if stored.customer_key is None:
            raise invalid_request("The encryption parameters are not applicable to this object.")
        if given is None:
            raise invalid_request(
                "The object was stored using a form of Server Side Encryption. The correct parameters must be "
                "provided to retrieve the object."
            )
        raise S3Error("AccessDenied", 403, "Access Denied")

    return check


def check_part(upload: Upload, parameters: Request) -> None:
    """Raises S3Error unless a part comes with the key of its upload."""
    given, wanted = named(parameters), upload.attributes.get("SSECustomerKeyMD5")
    if given == wanted:
        return
    if wanted is None:
        raise invalid_request(
            "The multipart upload initiate did not request encryption. Please resend the request without sending "
            "encryption parameters."
        )
    if given is None:
        raise invalid_request(
            "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate "
            "encryption parameters."
        )
    raise invalid_request("The provided encryption parameters did not match the ones used originally.")
