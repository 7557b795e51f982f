"""Finds the permissions that an operation of S3 needs: IAM's actions, and the ARNs of the resources."""

from collections.abc import Iterator

from sagelet_api.auth.permissions import action_of
from sagelet_api.protocol.calls import read_body, rewind
from sagelet_api.protocol.s3 import codec
from sagelet_api.protocol.s3.request import S3Request, copy_source
from sagelet_api.services.s3.writing import named_objects

_ARN = "arn:aws:s3:::"
#: Operations that make an object, with headers for which IAM requires a further action each.
_MAKERS = frozenset({"PutObject", "CopyObject", "CreateMultipartUpload"})
_BESIDE = {"x-amz-tagging": "s3:PutObjectTagging", "x-amz-acl": "s3:PutObjectAcl"}


def needs(operation: str, request: S3Request) -> Iterator[tuple[str, str]]:
    """Yields actions and resources, all of which must be allowed. Raises S3Error for a request that does not name
    them.
    """
    action = action_of("s3", operation)
    for resource in _resources(operation, request):
        yield action, resource
    if operation in _MAKERS:
        for header, beside in _BESIDE.items():
            if request.headers.get(header):
                yield beside, f"{_ARN}{request.bucket}/{request.key}"
    if source := request.headers.get("x-amz-copy-source"):
        bucket, key, _ = copy_source(source)
        yield "s3:GetObject", f"{_ARN}{bucket}/{key}"


def _resources(operation: str, request: S3Request) -> Iterator[str]:
    if not request.bucket:
        yield "*"
    elif operation == "DeleteObjects":
        # A policy that denies some keys of the bucket would not match a pattern for all of them.
        yield from (f"{_ARN}{request.bucket}/{key}" for key in _named_keys(operation, request))
    else:
        yield f"{_ARN}{request.bucket}/{request.key}" if request.key else f"{_ARN}{request.bucket}"


def _named_keys(operation: str, request: S3Request) -> list[str]:
    """Returns the keys in the body, which is put back for the handler."""
    body = read_body(request.environ, codec.MAX_XML)
    rewind(request.environ, body)
    parameters = codec.read(operation, request)
    rewind(request.environ, body)
    return [entry["Key"] for entry in named_objects(parameters)]
