"""Lambda: moto keeps the functions, and the engine runs them.

`LambdaRequests` stands before moto. Objects are sagelet's and not moto's, so it puts the code of S3 into the request.
"""

import base64
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from sagelet_api.protocol import sts_sessions
from sagelet_api.protocol.aws_errors import AwsError, InternalFailure, ValidationException
from sagelet_api.protocol.calls import CALL, Call, Environ, StartResponse, WsgiApp, read_body, rewind
from sagelet_api.protocol.operations import MAX_BODY
from sagelet_api.protocol.replies import Reply, error_reply, send
from sagelet_api.protocol.sts_sessions import StsSession
from sagelet_api.services.moto.functions import MotoFunctions
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.functions import Function, FunctionNotFound, FunctionRefused, Invoked
from sagelet_engine.model.objects import ObjectDamaged, ObjectNotFound, ObjectStore
from sagelet_engine.model.principal import Authorize, Principal

#: Bytes of a package in S3, at most.
_MOST_CODE = 262_144_000
#: Bytes of an event, at most (Lambda quotas): of a call that waits for the answer, and of one that does not.
_MOST_EVENT, _MOST_LATER = 6_291_456, 1_048_576
#: Operations that decide what a function's session does, or whose it is.
_CHANGES = frozenset({"CreateFunction", "UpdateFunctionCode", "UpdateFunctionConfiguration"})


class LambdaFunctions:
    """The engine's port `Functions`."""

    def __init__(self, moto: MotoFunctions, keys: Callable[[], KeyPair], authorize: Authorize) -> None:
        self._moto = moto
        self._keys = keys
        self._authorize = authorize

    def get(self, principal: Principal, region: str, arn: str) -> Function:
        found = self._moto.get(principal.account, region, arn)
        self._authorize(principal, "lambda:InvokeFunction", found.arn)
        return found

    def credentials(self, account: str, role: str, name: str, seconds: int, jobs: Sequence[str]) -> Mapping[str, str]:
        """Returns a session of the role. As a job, the function may do what its role's policies allow and, without
        --enforce-iam, what every job may.
        """
        role_name = role.rpartition("/")[2]
        session = StsSession(
            account=account,
            principal=f"arn:aws:sts::{account}:assumed-role/{role_name}/{name}",
            user_id=f"AROASAGELET:{name}",
            role=role,
            expires_ms=int((time.time() + seconds) * 1000),
            limited=True,
            ends_with=tuple(jobs),
        )
        key = sts_sessions.give_out(self._keys(), session)
        return {
            "AWS_ACCESS_KEY_ID": key.access_key,
            "AWS_SECRET_ACCESS_KEY": key.secret,
            "AWS_SESSION_TOKEN": key.token,
        }

    def keep_log(self, account: str, region: str, group: str, stream: str, lines: list[tuple[int, str]]) -> None:
        self._moto.keep_log(account, region, group, stream, lines)


class ResourceNotFound(AwsError):
    code = "ResourceNotFoundException"
    status = 404


class InvalidParameterValue(AwsError):
    code = "InvalidParameterValueException"
    status = 400


class InvalidRequestContent(AwsError):
    code = "InvalidRequestContentException"
    status = 400


class RequestTooLarge(AwsError):
    code = "RequestTooLargeException"
    status = 413


class Runs(Protocol):
    """Runs functions by principal, region, and ARN or name."""

    def check(self, principal: Principal, region: str, arn: str) -> None:
        """Raises FunctionRefused, NotAuthorized."""
        ...

    def invoke(self, principal: Principal, region: str, arn: str, event: str, request_id: str) -> Invoked:
        """Raises FunctionRefused, NotAuthorized, RuntimeUnavailable."""
        ...

    def invoke_unattended(self, principal: Principal, region: str, arn: str, event: str, request_id: str) -> None:
        """As `invoke`, for a caller that does not wait. Raises nothing: the function's log says why it did not run."""
        ...


#: True if Lambda may assume a role of an account.
RoleCheck = Callable[[str, str], bool]


class LambdaRequests:
    """A WSGI application: `others` (moto), with the requests of Lambda that are not moto's alone."""

    def __init__(
        self, others: WsgiApp, runs: Runs, objects: ObjectStore, functions: MotoFunctions, *, enforce_iam: bool
    ) -> None:
        """Without `enforce_iam` a function may have any role."""
        self._others = others
        self._runs = runs
        self._objects = objects
        self._functions = functions
        self._may_run_as = functions.may_run_as if enforce_iam else None

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        call: Call = environ[CALL]
        if call.service != "lambda" or not call.routed:
            return self._others(environ, start)
        try:
            if call.operation == "Invoke":
                return self._answer(call, environ, start)
            if call.operation in ("CreateFunction", "UpdateFunctionCode"):
                self._prepare(call, environ)
        except AwsError as error:
            return send(call, error_reply(call, error), start)
        return self._changed(call, environ, start) if call.operation in _CHANGES else self._others(environ, start)

    def _changed(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        """Answers a change of a function, and notes the jobs that made it."""
        jobs = call.caller.jobs
        name = _changed_name(call, environ) if jobs else ""
        statuses: list[str] = []

        def noting(status: str, *more: Any) -> object:
            statuses.append(status)
            return start(status, *more)

        answer = self._others(environ, noting)
        if jobs and statuses and statuses[-1].startswith("2"):
            # It may have been deleted meanwhile.
            with suppress(FunctionNotFound):
                self._functions.note_jobs(call.account, call.region, name, jobs)
        return answer

    def _answer(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        name = unquote(call.path.split("/")[3])
        qualifier = call.query.get("Qualifier")
        kind = _chosen(call, "x-amz-invocation-type", "invocationType", ("Event", "RequestResponse", "DryRun"))
        tail = _chosen(call, "x-amz-log-type", "logType", ("None", "Tail")) == "Tail"
        event = _event(read_body(environ, MAX_BODY), _MOST_LATER if kind == "Event" else _MOST_EVENT)
        arn = f"{name}:{qualifier}" if qualifier and name.rpartition(":")[2] != qualifier else name
        work = (call.caller, call.region, arn)
        try:
            if kind != "RequestResponse":
                self._runs.check(*work)
            if kind == "DryRun":
                return send(call, Reply(204, b""), start)
            if kind == "Event":
                later = (*work, event, call.request_id)
                threading.Thread(target=self._runs.invoke_unattended, args=later, name="invoke", daemon=True).start()
                return send(call, Reply(202, b""), start)
            invoked = self._runs.invoke(*work, event, call.request_id)
        except FunctionRefused as error:
            raise _refusal(error) from error
        except RuntimeUnavailable as error:
            raise InternalFailure(str(error)) from error
        if invoked.outcome.fault:
            raise InternalFailure(invoked.outcome.message)
        return send(call, _reply(invoked, tail=tail), start)

    def _prepare(self, call: Call, environ: Environ) -> None:
        """Puts the code of S3 into a request, and checks the role."""
        body = read_body(environ, MAX_BODY)
        rewind(environ, body)
        try:
            given = json.loads(body)
        except ValueError:
            return  # moto answers with AWS's error.
        code = given.get("Code") if call.operation == "CreateFunction" else given
        if not isinstance(given, dict) or not isinstance(code, dict):
            return
        role = given.get("Role")
        if self._may_run_as is not None and isinstance(role, str) and not self._may_run_as(call.account, role):
            raise InvalidParameterValue("The role defined for the function cannot be assumed by Lambda.")
        bucket, key = code.pop("S3Bucket", None), code.pop("S3Key", None)
        if isinstance(bucket, str) and isinstance(key, str):
            code["ZipFile"] = base64.b64encode(self._read(call, bucket, key)).decode()
            rewind(environ, json.dumps(given).encode())

    def _read(self, call: Call, bucket: str, key: str) -> bytes:
        with tempfile.TemporaryDirectory(prefix="sagelet-") as directory:
            file = Path(directory) / "code"
            try:
                self._objects.link(call.caller, bucket, key, file)
            except (ObjectNotFound, ObjectDamaged) as error:
                raise InvalidParameterValue(
                    f"Error occurred while GetObject. S3 Error Code: NoSuchKey. S3 Error Message: {error}"
                ) from error
            if file.stat().st_size > _MOST_CODE:
                raise InvalidParameterValue(f"s3://{bucket}/{key} has more than {_MOST_CODE} bytes")
            return file.read_bytes()


def _changed_name(call: Call, environ: Environ) -> str:
    """Returns the name or ARN of the function that a request makes or changes. Empty if moto will refuse it."""
    if call.operation != "CreateFunction":
        return unquote(call.path.split("/")[3])
    body = read_body(environ, MAX_BODY)
    rewind(environ, body)
    try:
        return str(json.loads(body)["FunctionName"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _chosen(call: Call, header: str, member: str, allowed: tuple[str, ...]) -> str:
    """Returns a header of Invoke, which has one of these values. Raises ValidationException."""
    value = call.headers.get(header, "RequestResponse" if "RequestResponse" in allowed else allowed[0])
    if value not in allowed:
        raise ValidationException(
            f"1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: "
            f"Member must satisfy enum value set: [{', '.join(allowed)}]"
        )
    return value


def _reply(invoked: Invoked, *, tail: bool) -> Reply:
    """Returns the answer of an invocation that was waited for (API reference, Invoke)."""
    outcome = invoked.outcome
    headers = {
        "Content-Type": "application/json",
        "x-amzn-RequestId": invoked.request_id,
        "X-Amz-Executed-Version": invoked.version,
        **({"X-Amz-Log-Result": base64.b64encode(invoked.log).decode()} if tail else {}),
    }
    if outcome.payload is not None:
        return Reply(200, outcome.payload.encode(), headers)
    return Reply(200, json.dumps(_failure(invoked)).encode(), {**headers, "X-Amz-Function-Error": "Unhandled"})


def _failure(invoked: Invoked) -> dict[str, object]:
    """Returns the payload of a failed invocation. AWS writes it in one of two forms: the runtime in the function's
    process reports an error, or Lambda sees that this process ended.
    """
    outcome = invoked.outcome
    if outcome.timed_out:
        said = f"Task timed out after {invoked.timeout_seconds:.2f} seconds"
        return {"errorType": "Sandbox.Timedout", "errorMessage": f"RequestId: {invoked.request_id} Error: {said}"}
    if outcome.stack is None:
        message = f"RequestId: {invoked.request_id} Error: {outcome.message}"
        return {"errorType": outcome.error, "errorMessage": message}
    return {
        "errorMessage": outcome.message,
        "errorType": outcome.error,
        "requestId": invoked.request_id,
        "stackTrace": [*outcome.stack],
    }


def _event(body: bytes, most: int) -> str:
    """Returns the event of an Invoke. Without a payload it is an empty object, as on AWS."""
    if len(body) > most:
        raise RequestTooLarge(f"Request must be smaller than {most} bytes for the InvokeFunction operation")
    text = body.decode("utf-8", "replace").strip() or "{}"
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestContent(f"Could not parse request body into json: {error}") from error
    return text


def _refusal(error: FunctionRefused) -> AwsError:
    return (ResourceNotFound if isinstance(error, FunctionNotFound) else InvalidParameterValue)(str(error))
