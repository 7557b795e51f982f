"""The port to AWS's operations: what a pipeline's steps call. The API answers them as it answers a client."""

from typing import Protocol

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.principal import Principal


class CallRefused(SageletError):
    """The operation answered with an AWS error. `code` is the error's code, the text is its message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ServiceCalls(Protocol):
    def __call__(
        self, principal: Principal, region: str, service: str, operation: str, request: JsonObject
    ) -> JsonObject:
        """Runs an operation (`sagemaker`, `CreateTrainingJob`) and returns its answer, with times as epoch seconds.
        The principal needs what a client would need.

        Text and numbers of the request become what the service model asks for: a pipeline's parameters and properties
        may have either type. Raises CallRefused.
        """
        ...


class _NoCalls:
    def __call__(
        self,
        principal: Principal,  # noqa: ARG002
        region: str,  # noqa: ARG002
        service: str,
        operation: str,
        request: JsonObject,  # noqa: ARG002
    ) -> JsonObject:
        raise CallRefused("UnknownOperationException", f"{service} {operation} is not served here")


#: The operations of an engine without an API.
NO_CALLS: ServiceCalls = _NoCalls()
