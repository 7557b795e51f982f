"""Operations called from inside the server, as a pipeline's steps call them: sagelet's own handlers, or moto.

The caller needs what a client would need, for the request that runs: its action, and iam:PassRole for its roles.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any

from sagelet_api.auth.needs import needs_of
from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import HEADERS, Environ, WsgiApp
from sagelet_api.protocol.operations import Context, Operations, RefusedOperation, SharedOperation
from sagelet_api.protocol.validation import rule_book, validate
from sagelet_engine.base.number_text import number_in, whole_number_in
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model import aws_texts
from sagelet_engine.model.principal import Authorize, NotAuthorized, Principal
from sagelet_engine.model.service_calls import CallRefused

#: Refuses a call by account, region, service and operation: raises AwsError.
Check = Callable[[str, str, str, str], None]


class LocalCalls:
    """A ServiceCalls. `serve` gives it the operations, which are made after the engine."""

    def __init__(self, others: WsgiApp, authorize: Authorize) -> None:
        """`others`: answers the requests for which sagelet has no operation (moto)."""
        self._others = others
        self._authorize = authorize
        self._services: Mapping[str, Operations] = {}
        self._check: Check | None = None

    def serve(self, services: Mapping[str, Operations], check: Check | None = None) -> None:
        """`check`: comes before every call."""
        self._services, self._check = services, check

    def __call__(
        self, principal: Principal, region: str, service: str, operation: str, request: JsonObject
    ) -> JsonObject:
        try:
            return self._answer(principal, region, service, operation, request)
        except NotAuthorized as error:
            message = aws_texts.failed_to_invoke(f"{service}:{operation}", str(error))
            raise CallRefused("ClientError", message) from error

    def _answer(
        self, principal: Principal, region: str, service: str, operation: str, request: JsonObject
    ) -> JsonObject:
        fitted = fit(rule_book(service).input_shape(operation), request)
        found = self._services.get(service, {}).get(operation)
        if isinstance(found, RefusedOperation):
            raise CallRefused("UnknownOperationException", found.reason)
        for action, resource in needs_of(principal, region, service, operation, fitted):
            self._authorize(principal, action, resource)
        account = principal.account
        context = Context(
            principal=principal,
            region=region,
            request_id=str(uuid.uuid4()),
            access_key=account,
            role=principal.role,
            operation=f"{service} {operation}",
        )
        if isinstance(found, SharedOperation):
            found = found.handler if found.is_ours(context, fitted) else None
        try:
            if self._check is not None:
                self._check(account, region, service, operation)
            valid = validate(service, operation, fitted)
            if found is not None:
                return dict(found(context, valid) or {})
        except AwsError as error:
            raise CallRefused(error.code, error.message) from error
        return self._ask_others(account, region, service, operation, fitted)

    def _ask_others(self, account: str, region: str, service: str, operation: str, request: JsonObject) -> JsonObject:
        body = json.dumps(request).encode()
        answer: list[Any] = []

        def start(*response: Any) -> None:
            answer[:] = response

        environ = _environ(account, region, service, operation, body)
        text = b"".join(self._others(environ, start))
        found = json.loads(text or b"{}")
        if answer[0].startswith("2"):
            return dict(found)
        code = str(found.get("__type", "InternalFailure")).rpartition("#")[2]
        raise CallRefused(code, str(found.get("message") or found.get("Message") or answer[0]))


def _environ(account: str, region: str, service: str, operation: str, body: bytes) -> Environ:
    """Returns a request of the AWS JSON protocol, signed for an account by its name."""
    metadata = rule_book(service).metadata
    host = f"{service}.{region}.amazonaws.com"
    scope = f"{account}/20000101/{region}/{metadata.get('signingName', service)}/aws4_request"
    headers = {
        "host": host,
        "x-amz-target": f"{metadata['targetPrefix']}.{operation}",
        "authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
    }
    return {
        HEADERS: headers,
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "SERVER_NAME": host,
        "SERVER_PORT": "443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "https",
        "wsgi.input": BytesIO(body),
        "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": f"application/x-amz-json-{metadata.get('jsonVersion', '1.1')}",
    }


def fit(shape: Any, value: Any) -> Any:
    """Returns a value in the types of a shape where that loses nothing: 3 as `3` for text, `3` as 3 for a number.

    A pipeline's parameters and properties have either type, and AWS takes both.
    """
    kind = None if shape is None else shape.type_name
    if kind == "structure" and isinstance(value, dict):
        return {name: fit(shape.members.get(name), one) for name, one in value.items()}
    if kind == "map" and isinstance(value, dict):
        return {name: fit(shape.value, one) for name, one in value.items()}
    if kind == "list" and isinstance(value, list):
        return [fit(shape.member, one) for one in value]
    if kind == "string" and isinstance(value, (bool, int, float)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind in ("integer", "long", "float", "double", "boolean") and isinstance(value, str):
        return _number(kind, value)
    return value


def _number(kind: str, text: str) -> Any:
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    number = whole_number_in(text) if kind in ("integer", "long") else number_in(text)
    # The operation says what is wrong with it.
    return text if number is None else number
