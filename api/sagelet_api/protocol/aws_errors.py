"""AWS's errors as exceptions. Raise one anywhere below a handler; the client gets it in its own protocol."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

#: Letters of an error's message, and of each of its details. What a request holds may be in them.
MOST_MESSAGE = 32 * 1024


def cut(text: str) -> str:
    """Returns at most MOST_MESSAGE letters of a text."""
    return text if len(text) <= MOST_MESSAGE else f"{text[:MOST_MESSAGE]}..."


#: The header that tells sagelet's own commands that what a request names does not exist. AWS's code for that differs
#: from operation to operation, and some of the codes also mean other mistakes.
MISSING_HEADER = "x-sagelet-missing"


class AwsError(Exception):
    """An error that the client sees. It has a `code`, an HTTP `status` and a message, which names the remedy if there
    is one. The message has at most MOST_MESSAGE letters.
    """

    code: str = "InternalFailure"
    status: int = 500
    #: Members that S3's errors have in elements of their own.
    details: Mapping[str, str] = MappingProxyType({})
    #: The member that carries the text in AWS JSON. Coral's own errors use either case; modelled shapes use the
    #: model's.
    message_member: ClassVar[str] = "message"
    #: True if what the request names does not exist.
    missing: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        self.message = cut(message)
        super().__init__(self.message)


class InternalFailure(AwsError):
    """A bug or a full disk. sagelet has to be repaired, and the client may repeat the call."""


class NotImplementedOperation(AwsError):
    """An AWS operation outside of the JSON protocols that neither sagelet nor moto has. The status is 501, so SDKs do
    not repeat it.
    """

    code = "NotImplemented"
    status = 501


class ClientError(AwsError):
    """Base of the errors that the client can correct."""

    status = 400


class ValidationException(ClientError):
    code = "ValidationException"


class NotFoundValidation(ValidationException):
    """AWS's answer to a Describe of a job that does not exist."""

    missing = True


class SerializationException(ClientError):
    """The body is not JSON, or a value has the wrong JSON type."""

    code = "SerializationException"
    message_member = "Message"


class UnknownOperationException(ClientError):
    code = "UnknownOperationException"


class AmbiguousOperation(UnknownOperationException):
    """The request names two operations, or one of them twice, so another one might run than was checked."""


class MissingAction(ClientError):
    """AWS's Query protocol: the form has no `Action`."""

    code = "MissingAction"


class InvalidAction(ClientError):
    """AWS's Query protocol: the service has no such operation."""

    code = "InvalidAction"


class MalformedQueryString(ClientError):
    """AWS's Query protocol: the fields can be read in two ways."""

    code = "MalformedQueryString"
    status = 404


class IncompleteBody(ClientError):
    """The body ended or stalled before the length it announced, or its chunks are garbled."""

    code = "IncompleteBody"


class ThrottlingException(ClientError):
    """SDKs try again after it. AWS's text is RATE_EXCEEDED, for both SageMaker and CloudWatch Logs."""

    code = "ThrottlingException"


RATE_EXCEEDED = "Rate exceeded"


class RequestEntityTooLarge(ClientError):
    code = "RequestEntityTooLargeException"
    status = 413


class AccessDenied(ClientError):
    code = "AccessDeniedException"
    status = 403


class MissingAuthenticationToken(ClientError):
    code = "MissingAuthenticationTokenException"
    status = 403


class SageMakerError(ClientError):
    """Base of the error shapes in SageMaker's service model. Their text member is called `Message`."""

    message_member = "Message"


class ResourceInUse(SageMakerError):
    code = "ResourceInUse"


class ResourceNotFound(SageMakerError):
    code = "ResourceNotFound"
    missing = True


class ResourceLimitExceeded(SageMakerError):
    code = "ResourceLimitExceeded"


class ConflictException(SageMakerError):
    code = "ConflictException"


class NoSuchEntity(ClientError):
    """IAM's error for a user, group, role or policy that does not exist."""

    code = "NoSuchEntity"
    status = 404


class MalformedPolicyDocument(ClientError):
    """STS's error for a session policy that is not a policy."""

    code = "MalformedPolicyDocument"


class LogsResourceNotFound(ClientError):
    """CloudWatch Logs' shape, whose text member is called `message`."""

    code = "ResourceNotFoundException"


class LogsInvalidParameter(ClientError):
    code = "InvalidParameterException"


class LogsResourceAlreadyExists(ClientError):
    code = "ResourceAlreadyExistsException"


class LogsTooManyTags(ClientError):
    code = "TooManyTagsException"
