"""Server-side encryption. It is reported but not done, since the disk is the user's own.

A bucket has a default: SSE-S3, as on AWS since January 2023, or what PutBucketEncryption has set. An object has the
encryption that its request names, otherwise its bucket's default at that moment.
"""

from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, malformed_xml
from sagelet_api.services.s3.context import Context, Rest
from sagelet_engine.s3.records import Bucket

#: Members of PutObject, CopyObject and CreateMultipartUpload, and of answers about their objects.
MEMBERS = (
    "ServerSideEncryption", "SSEKMSKeyId", "SSEKMSEncryptionContext", "BucketKeyEnabled", "SSECustomerAlgorithm",
    "SSECustomerKeyMD5",
)  # fmt: skip
SSE_S3 = {"ServerSideEncryption": "AES256"}
_WITHOUT_KMS = (
    "Server Side Encryption with AWS KMS managed key requires HTTP header x-amz-server-side-encryption : aws:kms"
)
_TWO_METHODS = "Server Side Encryption with Customer provided key is incompatible with the encryption method specified"
_ALGORITHMS = ("AES256", "aws:kms", "aws:kms:dsse")


def get_bucket_encryption(context: Context, parameters: Parameters) -> Result:
    rule = context.rest.encryption(context.bucket(parameters)) or {
        "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}
    }
    return Result({"ServerSideEncryptionConfiguration": {"Rules": [{"BucketKeyEnabled": False, **rule}]}})


def put_bucket_encryption(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    rules = parameters["ServerSideEncryptionConfiguration"]["Rules"]
    if len(rules) != 1:
        raise malformed_xml()
    by_default = rules[0].get("ApplyServerSideEncryptionByDefault", {"SSEAlgorithm": "AES256"})
    if by_default["SSEAlgorithm"] not in _ALGORITHMS or by_default.get("KMSMasterKeyID") == "":
        raise malformed_xml()
    if by_default["SSEAlgorithm"] == "AES256" and "KMSMasterKeyID" in by_default:
        message = "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse"
        raise invalid_argument("ApplyServerSideEncryptionByDefault", by_default["SSEAlgorithm"], message)
    context.rest.set_encryption(bucket, {**rules[0], "ApplyServerSideEncryptionByDefault": by_default})
    return Result()


def delete_bucket_encryption(context: Context, parameters: Parameters) -> Result:
    """Resets the bucket's default to SSE-S3."""
    context.rest.set_encryption(context.bucket(parameters), None)
    return Result()


def asked(context: Context, bucket: Bucket, parameters: Request) -> Output:
    """Returns the encryption of an object that a request makes. Raises S3Error for one that S3 does not have."""
    named = {name: parameters[name] for name in MEMBERS if parameters.get(name) is not None}
    algorithm = named.get("ServerSideEncryption")
    if algorithm is not None and algorithm not in _ALGORITHMS:
        raise _refused(algorithm, "The encryption method specified is not supported")
    if "SSECustomerAlgorithm" in named:
        return _with_customers_key(named)
    if "SSEKMSKeyId" in named and algorithm in (None, "AES256"):
        raise _refused(algorithm or "", _WITHOUT_KMS)
    if algorithm is None:
        return by_default(context.rest, bucket)
    if algorithm == "AES256":
        return dict(SSE_S3)
    return {**named, "SSEKMSKeyId": context.rest.kms_key(bucket, named.get("SSEKMSKeyId"))}


def by_default(rest: Rest, bucket: Bucket) -> Output:
    """Returns the encryption of objects whose requests name none."""
    rule = rest.encryption(bucket)
    found = rule["ApplyServerSideEncryptionByDefault"] if rule else {}
    algorithm = found.get("SSEAlgorithm", "AES256")
    if rule is None or algorithm == "AES256":
        return dict(SSE_S3)
    key = rest.kms_key(bucket, found.get("KMSMasterKeyID"))
    with_bucket_key = {"BucketKeyEnabled": True} if rule.get("BucketKeyEnabled") else {}
    return {"ServerSideEncryption": algorithm, "SSEKMSKeyId": key, **with_bucket_key}


def _with_customers_key(named: Parameters) -> Output:
    if named["SSECustomerAlgorithm"] != "AES256":
        raise S3Error(
            "InvalidEncryptionAlgorithmError",
            400,
            "The Encryption request you specified is not valid. Supported value: AES256.",
        )
    if "ServerSideEncryption" in named:
        raise _refused(named["ServerSideEncryption"], _TWO_METHODS)
    return named


def _refused(algorithm: str, message: str) -> S3Error:
    return invalid_argument("x-amz-server-side-encryption", algorithm, message)
