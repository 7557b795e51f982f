"""Passes requests to moto: every AWS service that sagelet does not serve itself.

If moto lacks an operation or fails, the caller gets an error in its protocol.
"""

import logging
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from sagelet_api.protocol.aws_errors import (
    AwsError,
    InternalFailure,
    NotImplementedOperation,
    UnknownOperationException,
    ValidationException,
)
from sagelet_api.protocol.calls import (
    CALL,
    MAX_BODY,
    Call,
    Environ,
    Protocol,
    StartResponse,
    parse_call,
    read_body,
    rewind,
)
from sagelet_api.protocol.replies import error_reply, send
from sagelet_api.protocol.unpacking import unpack
from sagelet_api.services.moto.confined import Confined
from sagelet_api.services.moto.dispatch import dispatching, route
from sagelet_api.services.moto.iam import MotoIam
from sagelet_api.services.moto.process import MotoProcess

_log = logging.getLogger(__name__)

#: Paths of moto's own control and instance-metadata services, which hand out state and credentials.
_REFUSED_PATHS = ("/moto-api", "/latest/meta-data", "/latest/api")
_RETRIES = 5
_TAGS = {("sagemaker", operation) for operation in ("AddTags", "DeleteTags", "ListTags")}
_WEB_PAGES = (b"<!doctype html", b"<html")


class MotoRequests:
    """A WSGI app (`wsgi`) for signed requests."""

    def __init__(self, moto: MotoProcess, iam: MotoIam) -> None:
        self._moto = moto
        self._iam = iam
        #: Signing names that moto has answered to.
        self._services: set[str] = set()

    def wsgi(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answers a signed request. If moto lacks the operation or fails, the caller gets an error in its protocol."""
        call: Call = environ.get(CALL) or parse_call(environ)
        try:
            if call.path.startswith(_REFUSED_PATHS) or call.protocol is Protocol.CBOR:
                raise _not_implemented(call)
            if call.service in ("iam", "sts"):
                self._iam.of(call.account, self._moto.partition(call.region))
            return self._ask(call, _for_moto(call, environ), start_response)
        except AwsError as error:
            return send(call, error_reply(call, error), start_response)

    def route(self, models: Sequence[str], environ: Environ) -> tuple[str, str] | None:
        """Returns the service and operation that method and path name, of botocore's services that use REST."""
        self._moto.app()
        return route(models, environ)

    def _has_service(self, call: Call, environ: Environ) -> bool:
        """True if moto has the service. moto fails on one that it does not have."""
        if call.service in self._services:
            return True
        app = self._moto.app()
        try:
            host = app.infer_service_region_host(environ, call.path)
        except (KeyError, IndexError):  # For example, DynamoDB without a target.
            return False
        if host is not None and app.get_backend_for_host(host) is None:
            return False
        self._services.add(call.service)
        return True

    def _ask(self, call: Call, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Runs moto, and passes its answer on unless that is an error without words, or a web page."""
        answer: list[Any] = []

        def start(*response: Any) -> None:
            answer[:] = response

        with self._iam.keeping(call.account, self._moto.partition(call.region), call.service, call.operation):
            body = b"".join(self._run(call, environ, start))
        status, headers = answer[0], answer[1]
        speechless = not body and call.method != "HEAD"
        if not status.startswith(("2", "3")) and (speechless or body[:15].lower().startswith(_WEB_PAGES)):
            raise _not_implemented(call) if status.startswith("4") else _failed(call, status)
        start_response(status, _with_length(call, headers, body))
        return [b"" if call.method == "HEAD" else body]

    def _run(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        app = self._moto.app()
        if not self._has_service(call, environ):
            raise _not_implemented(call)
        for attempt in range(_RETRIES):
            try:
                with dispatching(call):
                    return [*app(environ, start)]
            except AwsError:
                # The body is not the signed one, or did not arrive whole.
                raise
            except Confined as refused:
                raise _refused(call, str(refused)) from refused
            except (NotImplementedError, import_module("botocore.model").OperationNotFoundError) as error:
                raise _not_implemented(call) from error
            except Exception as error:
                if (call.service, call.operation) in _TAGS:
                    # moto fails on an ARN of a kind that it does not have.
                    raise ValidationException("This resource does not exist, or cannot have tags here.") from error
                if not _lost_race(call, error) or attempt == _RETRIES - 1:
                    _log.exception("moto failed at %s %s, request %s", call.service, call.operation, call.request_id)
                    raise _failed(call, f"{type(error).__name__}: {error}") from error
        raise AssertionError("unreachable")


def _for_moto(call: Call, environ: Environ) -> Environ:
    """Returns the request in moto's form: the account in a header of its own, the raw path, the service in
    Authorization.
    """
    environ = {**environ, "RAW_URI": environ.get("REQUEST_URI", environ.get("PATH_INFO", ""))}
    environ.pop("HTTP_X_MOTO_ACCOUNT_ID", None)
    credential = call.credential
    if credential and (credential.names_account or call.job or call.session):
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = call.account
    if credential:
        # The header as sagelet has read it. moto reads it in its own way, and takes every presigned URL for one of S3,
        # though GetCallerIdentity is presigned, too (Kubernetes logs in that way).
        scope = f"{credential.access_key}/20000101/{credential.region}/{credential.service}/aws4_request"
        environ["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    if call.routed and not environ.get("CONTENT_TYPE", "").startswith(("application/json", "application/xml")):
        # With some content types moto takes the request for one of another protocol, and finds no operation.
        environ.pop("CONTENT_TYPE", None)
    # moto takes a body of unknown length for an empty one. It reads a body of any length into memory, whatever its
    # unpacked size.
    body = read_body(environ, MAX_BODY)
    rewind(environ, unpack(environ, body, MAX_BODY))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return environ


def _lost_race(call: Call, error: Exception) -> bool:
    """True if the error comes from a race. moto iterates over live dictionaries, so a read that met a write is simply
    repeated.
    """
    return call.method in ("GET", "HEAD") and isinstance(error, RuntimeError) and "during iteration" in str(error)


def _not_implemented(call: Call) -> AwsError:
    what = f"{call.service} {call.operation or f'{call.method} {call.path}'}"
    return _refused(
        call, f"{what} is not implemented by sagelet, nor by moto {import_module('moto').__version__} behind it."
    )


def _refused(call: Call, message: str) -> AwsError:
    if call.protocol in (Protocol.JSON, Protocol.CBOR):
        return UnknownOperationException(message)
    return NotImplementedOperation(message)


def _failed(call: Call, why: str) -> AwsError:
    return InternalFailure(f"moto, which stands in for {call.service}, failed at {call.operation or call.path}: {why}")


def _with_length(call: Call, headers: Sequence[tuple[str, str]], body: bytes) -> Sequence[tuple[str, str]]:
    if call.method == "HEAD" or any(name.lower() == "content-length" for name, _ in headers):
        return headers
    return [*headers, ("Content-Length", str(len(body)))]
