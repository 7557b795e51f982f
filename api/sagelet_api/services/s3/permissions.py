"""What a job's credentials need for an operation of S3: IAM's action and the ARN of what it is about."""

from urllib.parse import unquote

from sagelet_api.permissions import action_of
from sagelet_api.protocol import Call
from sagelet_api.services.s3.request import S3Request

_ARN = "arn:aws:s3:::"


def authorize(call: Call, operation: str, request: S3Request) -> None:
    """Raises AwsError when the call is a job's, and the job may not do this."""
    if call.permit is None:
        return
    call.permit(action_of("s3", operation), _resource(operation, request))
    if source := request.headers.get("x-amz-copy-source"):
        path, _, _ = unquote(source).lstrip("/").partition("?")
        call.permit("s3:GetObject", f"{_ARN}{path}")


def _resource(operation: str, request: S3Request) -> str:
    if not request.bucket:
        return "*"
    if operation == "DeleteObjects":
        # The keys are in the body: the job must be allowed to delete any.
        return f"{_ARN}{request.bucket}/*"
    return f"{_ARN}{request.bucket}/{request.key}" if request.key else f"{_ARN}{request.bucket}"
