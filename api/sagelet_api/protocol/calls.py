"""Turns a WSGI request into a `Call`: who calls which operation of which service, in which protocol.

The caller is read from the SigV4 credential scope. `auth/authentication.py` checks whether that is true.
"""

import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from sagelet_api.protocol.aws_errors import IncompleteBody, RequestEntityTooLarge, SerializationException
from sagelet_api.protocol.sts_sessions import StsSession, is_session_token
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import Job
from sagelet_engine.model.principal import Principal

#: Puts the next bytes into memory and returns their number, 0 at the end.
ReadInto = Callable[[memoryview], int]


def reader_into(source: Any) -> ReadInto:
    """Returns `readinto` of a stream, even if the stream can only `read`, such as cheroot's of chunked bodies."""
    if hasattr(source, "readinto"):
        found: ReadInto = source.readinto
        return found

    def read_into(buffer: memoryview) -> int:
        data: bytes = source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    return read_into


Environ = dict[str, Any]
StartResponse = Callable[..., Any]
WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]

#: Set by the server: the headers as they were sent, by names in lower case. WSGI's variables cannot tell `_` from `-`.
HEADERS = "sagelet.headers"
#: Set by the application: the Call, which gets its operation's name once that is known.
CALL = "sagelet.call"
#: Set by the server for requests from the hosts of jobs, which are containers. Their signatures are always checked.
FROM_CONTAINERS = "sagelet.from_containers"
#: Set by the request guard for requests that a page of another origin has a browser send. Their signatures are always
#: checked.
FROM_PAGE = "sagelet.from_page"
#: Set by the request guard for the pages: True if the browser has to be logged in.
NEEDS_LOGIN = "sagelet.needs_login"
#: The largest body of a request that is not for S3. ECR's layer parts are 20 MB in base64.
MAX_BODY = 32 * 1024 * 1024
#: The caller's account and region, unless the request says otherwise.
DEFAULT_ACCOUNT = "123456789012"
DEFAULT_REGION = "us-east-1"

#: The names that S3 gave regions in its first years. s3cmd signs for US until a server names another region.
_FORMER_NAMES = {"US": "us-east-1", "EU": "eu-west-1"}
_SCOPE = re.compile(r"AWS4-(?P<algorithm>HMAC|ECDSA)\S*\s.*?Credential=(?P<scope>[^,\s]+)", re.DOTALL)
_V2 = re.compile(r"AWS (?P<key>[^:\s]+):\S")
#: sagelet's own paths, which no bucket can have.
_OWN_PATHS = "/_"
#: Methods of S3, and the parameters of its requests with POST.
_S3_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_S3_POSTS = frozenset({"uploads", "uploadId", "delete", "restore", "select"})
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}", re.IGNORECASE)


class Protocol(Enum):
    """The protocol in which a client wants its errors."""

    JSON = "json"
    CBOR = "rpc-v2-cbor"
    S3 = "s3"
    QUERY = "query"


@dataclass(frozen=True)
class Credential:
    """The parts of a credential scope that route a request."""

    access_key: str
    #: The service as the client signed it, in lower case: `sagemaker`, `s3`, `monitoring`, ...
    service: str
    region: str

    @property
    def account(self) -> str:
        """Returns the account. A 12-digit access key names it, as with LocalStack; every other key means the default
        account.
        """
        return self.access_key if self.names_account else DEFAULT_ACCOUNT

    @property
    def names_account(self) -> bool:
        return _ACCOUNT.fullmatch(self.access_key) is not None


class Call(NamedTuple):
    """One request without its body. An object's bytes stay in the WSGI stream; `read_body` takes small bodies.

    A tuple: each request makes one, and another with its operation, which a frozen dataclass takes 5 us longer for.
    """

    #: The signing name: `sagemaker`, `logs`, `s3`, ... Empty if the request is not signed.
    service: str
    #: `CreateTrainingJob`, as `operation_names.py` finds it after the request guard. Empty if the request names none.
    operation: str
    account: str
    region: str
    method: str
    path: str
    query: Mapping[str, str]
    #: By names in lower case.
    headers: Mapping[str, str]
    request_id: str
    protocol: Protocol
    credential: Credential | None
    #: Who calls. None until the request guard has admitted the request.
    principal: Principal | None = None
    #: The job whose credentials these are, or that requested the session. None for an owner.
    job: Job | None = None
    #: Raises NotAuthorized for an action that the caller may not do on a resource. None for a caller who may do
    #: everything.
    permit: Callable[[str, str], None] | None = None
    #: The session whose token came with the request. None if the token was not given out here.
    session: StsSession | None = None
    #: botocore's name of the service of the operation. Empty for an unknown service.
    model: str = ""
    #: True if method and path identify the operation.
    routed: bool = False

    @property
    def caller(self) -> Principal:
        """Returns who calls. Only for a request that the guard has admitted."""
        assert self.principal is not None
        return self.principal

    @property
    def is_read(self) -> bool:
        """True for the methods by which a browser, or a person, is shown something."""
        return self.method in ("GET", "HEAD")

    @property
    def token(self) -> str:
        """Returns the session token that came with the request. Empty if none did."""
        return self.headers.get("x-amz-security-token") or self.query.get("X-Amz-Security-Token", "")

    @property
    def is_session(self) -> bool:
        """True if the token looks like one that was given out here, to a job or by STS."""
        return self.token != "" and is_session_token(self.token)

    @property
    def job_token(self) -> str:
        """Returns the session token of the training job behind the request. Empty if there is no job."""
        if self.job is None:
            return ""
        return self.session.job_token if self.session else self.token


def parse_call(environ: Environ) -> Call:
    """Returns the Call of a request. Never raises: an unsigned or garbled one has no credential, and the request guard
    refuses it.
    """
    headers: Mapping[str, str] = environ[HEADERS]
    question = environ.get("QUERY_STRING", "")
    query = dict(parse_qsl(question, keep_blank_values=True)) if question else {}
    credential = find_credential(headers, query)
    service = credential.service if credential else ""
    method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "") or "/"
    if credential is None and path.startswith(_OWN_PATHS):
        protocol = Protocol.JSON
    else:
        protocol = _protocol(service, headers, query)
        if credential is None and protocol is Protocol.JSON and _is_of_s3(method, headers, query):
            protocol = Protocol.S3
    return Call(
        service=service,
        operation="",
        account=credential.account if credential else DEFAULT_ACCOUNT,
        region=credential.region if credential else DEFAULT_REGION,
        method=method,
        path=path,
        query=query,
        headers=headers,
        request_id=_new_request_id(),
        protocol=protocol,
        credential=credential,
    )


def _new_request_id() -> str:
    """Returns a UUID of version 4 (RFC 9562, 5.4). The module uuid takes five times as long."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANTS[text[16]]}{text[17:20]}-{text[20:]}"


#: The variant is in the upper two bits of a digit.
_VARIANTS = {f"{digit:x}": f"{8 | digit & 3:x}" for digit in range(16)}


def read_body(environ: Environ, limit: int) -> bytes:
    """Reads the whole body. Raises IncompleteBody, and RequestEntityTooLarge before it reads more than `limit`
    bytes.
    """
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not length and not environ.get("wsgi.input_terminated"):
        return b""
    if length > limit:
        raise _too_large(limit)
    try:
        body: bytes = environ["wsgi.input"].read(length or limit + 1)
    except (OSError, ValueError) as error:
        raise IncompleteBody(f"The request body did not arrive whole: {error}") from error
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> RequestEntityTooLarge:
    return RequestEntityTooLarge(f"The request body is larger than the {limit} bytes that this operation takes.")


def rewind(environ: Environ, body: bytes) -> None:
    """Puts a body that was read back into the environ, so that it can be read again."""
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ["wsgi.input_terminated"] = True


def parse_json(body: bytes) -> JsonObject:
    """Returns the members of an AWS JSON body. An empty body is an empty structure. Raises SerializationException."""
    if not body:
        return {}
    try:
        text = body.decode("utf-8")
        value = _READER.decode(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")  # A lone surrogate, which no store could keep.
    except (ValueError, RecursionError) as error:
        raise SerializationException(f"The request body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise SerializationException("Start of structure or map expected at the top of the request body")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_READER = json.JSONDecoder(parse_constant=_no_constant)


def _protocol(service: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Protocol:
    if service in ("s3", "s3express"):
        return Protocol.S3
    if headers.get("smithy-protocol") == "rpc-v2-cbor":
        return Protocol.CBOR
    if "x-amz-target" in headers:
        return Protocol.JSON
    is_form = headers.get("content-type", "").strip().lower().startswith("application/x-www-form-urlencoded")
    return Protocol.QUERY if is_form or "Action" in query else Protocol.JSON


def _is_of_s3(method: str, headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
    """True if an unsigned request has the form of S3's: a client that does not sign does not name the service either.

    Clients of AWS JSON name their operation, and those of other REST services send JSON. API Gateway's ask for it.
    """
    wants_json = headers.get("accept") == "application/json"
    if wants_json or "x-amz-target" in headers or "json" in headers.get("content-type", ""):
        return False
    return method in _S3_METHODS or (method == "POST" and not _S3_POSTS.isdisjoint(query))


def find_credential(headers: Mapping[str, str], query: Mapping[str, str]) -> Credential | None:
    """Returns the credential of a signed or presigned request, or None if it is missing or unreadable.

    `headers` has lower-case names. Knows SigV4, SigV4A (its scope names no region) and S3's SigV2.
    """
    authorization = headers.get("authorization")
    if authorization is not None:
        return _from_header(authorization)
    if "X-Amz-Credential" in query and "X-Amz-Signature" in query:
        return _from_scope(query["X-Amz-Credential"], "ECDSA" in query.get("X-Amz-Algorithm", ""))
    if "AWSAccessKeyId" in query and "Signature" in query:
        return Credential(query["AWSAccessKeyId"], "s3", DEFAULT_REGION)
    return None


def _from_header(authorization: str) -> Credential | None:
    if match := _SCOPE.match(authorization):
        return _from_scope(match["scope"], match["algorithm"] == "ECDSA")
    if match := _V2.match(authorization):
        return Credential(match["key"], "s3", DEFAULT_REGION)
    return None


def _from_scope(scope: str, without_region: bool) -> Credential | None:
    if without_region:
        scope = _insert_region(scope)
    parts = scope.rsplit("/", 4)
    if len(parts) != 5 or parts[4] != "aws4_request":
        return None
    access_key, _, region, service, _ = parts
    if not access_key or not _NAME.fullmatch(region) or not _NAME.fullmatch(service):
        return None
    return Credential(access_key, service.lower(), _FORMER_NAMES.get(region, region))


def _insert_region(scope: str) -> str:
    head, _, tail = scope.partition("/")
    date, _, rest = tail.partition("/")
    return f"{head}/{date}/{DEFAULT_REGION}/{rest}"
