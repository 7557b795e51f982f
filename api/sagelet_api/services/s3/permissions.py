"""Finds the permissions that an operation of S3 needs: IAM's actions, and the ARNs of the resources."""

from collections.abc import Iterator

from sagelet_api.auth.iam_actions import actions_of
from sagelet_api.auth.policies import NO_RESOURCE
from sagelet_api.protocol.calls import read_body, rewind
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.s3 import codec
from sagelet_api.protocol.s3.request import S3Request, copy_source
from sagelet_api.services.s3.writing import named_objects

_ARN = "arn:aws:s3:::"
#: Operations that make an object, with headers for which IAM requires a further action each.
_MAKERS = frozenset({"PutObject", "CopyObject", "CreateMultipartUpload"})
#: The actions for a version of an object.
_OF_VERSIONS = {
    f"s3:{verb}Object{what}": f"s3:{verb}ObjectVersion{what}"
    for verb, what in (
        ("Delete", ""),
        ("Delete", "Tagging"),
        ("Get", ""),
        ("Get", "Acl"),
        ("Get", "Attributes"),
        ("Get", "Tagging"),
        ("Put", "Acl"),
        ("Put", "Tagging"),
    )
}
_BESIDE = {"x-amz-tagging": "s3:PutObjectTagging", "x-amz-acl": "s3:PutObjectAcl"}


def needs(operation: str, request: S3Request) -> Iterator[tuple[str, str]]:
    """Yields actions and resources, all of which must be allowed. Raises S3Error for a request that does not name
    them.
    """
    for action in actions_of("s3", operation):
        for resource, version in _resources(operation, request):
            yield from _with_version(action.name, resource, version)
    if operation in _MAKERS:
        for header, beside in _BESIDE.items():
            if request.headers.get(header):
                yield beside, f"{_ARN}{request.bucket}/{request.key}"
    if source := request.headers.get("x-amz-copy-source"):
        bucket, key, query = copy_source(source)
        yield from _with_version("s3:GetObject", f"{_ARN}{bucket}/{key}", bool(query))


def _with_version(action: str, resource: str, versioned: bool) -> Iterator[tuple[str, str]]:
    """Yields the action, and for a request that names a version that of versions, too.

    On AWS the latter takes the place of the former. Here an object has one version, so a denial of GetObject would not
    hold for a request that names the version `null`.
    """
    yield action, resource
    if versioned and action in _OF_VERSIONS:
        yield _OF_VERSIONS[action], resource


def _resources(operation: str, request: S3Request) -> Iterator[tuple[str, bool]]:
    """Yields each resource, and whether the request names a version of it."""
    if not request.bucket:
        yield NO_RESOURCE, False
    elif operation == "DeleteObjects":
        # A policy that denies some keys of the bucket would not match a pattern for all of them.
        for entry in _named_objects(operation, request):
            yield f"{_ARN}{request.bucket}/{entry['Key']}", "VersionId" in entry
    elif request.key:
        yield f"{_ARN}{request.bucket}/{request.key}", "versionId" in request.query
    else:
        yield f"{_ARN}{request.bucket}", False


def _named_objects(operation: str, request: S3Request) -> list[Parameters]:
    """Returns the entries in the body, which is put back for the handler."""
    body = read_body(request.environ, codec.MAX_XML)
    rewind(request.environ, body)
    parameters = codec.read(operation, request)
    rewind(request.environ, body)
    return named_objects(parameters)
