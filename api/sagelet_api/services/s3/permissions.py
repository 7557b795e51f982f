"""What an operation of S3 needs: IAM's actions, and the ARNs of what they are about."""

from collections.abc import Iterator
from urllib.parse import unquote

from sagelet_api.permissions import action_of
from sagelet_api.services.s3.request import S3Request

_ARN = "arn:aws:s3:::"


def needs(operation: str, request: S3Request) -> Iterator[tuple[str, str]]:
    """Actions and resources, all of which must be allowed."""
    yield action_of("s3", operation), _resource(operation, request)
    if source := request.headers.get("x-amz-copy-source"):
        path, _, _ = unquote(source).lstrip("/").partition("?")
        yield "s3:GetObject", f"{_ARN}{path}"


def _resource(operation: str, request: S3Request) -> str:
    if not request.bucket:
        return "*"
    if operation == "DeleteObjects":
        # The keys are in the body: the job must be allowed to delete any.
        return f"{_ARN}{request.bucket}/*"
    return f"{_ARN}{request.bucket}/{request.key}" if request.key else f"{_ARN}{request.bucket}"
