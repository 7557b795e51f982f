"""What happens to a request, in order: the whole server on one screen.

`authorize` is the only place that permits a call. It runs after the call's operation is known, and before anything acts
on it.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from sagelet_api.auth.objects_origin import move
from sagelet_api.auth.people import error_text, is_person, way_to_page
from sagelet_api.auth.permissions import action_of, resource_of
from sagelet_api.auth.request_guard import RequestGuard, accepts_page, guarded
from sagelet_api.hub.service import PREFIX as HUB_PREFIX
from sagelet_api.hub.service import Hub
from sagelet_api.protocol.aws_errors import AwsError, InternalFailure, MissingAction, UnknownOperationException
from sagelet_api.protocol.calls import (
    CALL,
    Call,
    Environ,
    StartResponse,
    WsgiApp,
    parse_call,
    parse_json,
    read_body,
    rewind,
)
from sagelet_api.protocol.operation_names import Routes, form_fields, name_operation, no_routes
from sagelet_api.protocol.operations import Context, Operations, RestOperation, SharedOperation
from sagelet_api.protocol.query import QUERY_SERVICES, parse_form, query_reply, read_form
from sagelet_api.protocol.replies import error_reply, json_reply, send
from sagelet_api.protocol.validation import validate
from sagelet_api.web import PREFIX as PAGE_PREFIX
from sagelet_engine.base.concurrency import COMPUTING
from sagelet_engine.base.errors import SageletError

#: More bytes than any accepted request of SageMaker itself has.
_MAX_BODY = 5 * 1024 * 1024


def authorize(call: Call, environ: Environ) -> None:
    """Raises AwsError for what the caller may not do. An owner may do everything."""
    if call.permit is None:
        return
    if not call.model:
        # The operation is unknown, and so is what would run.
        raise UnknownOperationException(
            f"{call.service} {call.operation or f'{call.method} {call.path}'} is not an operation that sagelet knows."
        )
    for action, resource in _needs(call, environ):
        call.permit(action, resource)


def _needs(call: Call, environ: Environ) -> Iterator[tuple[str, str]]:
    """Yields IAM's actions and their resources, all of which must be allowed to the caller."""
    if call.service == "s3":
        from sagelet_api.protocol.s3 import request
        from sagelet_api.services.s3 import permissions

        yield from permissions.needs(call.operation, environ[request.PARSED])
        return
    role = _assumed(call, environ)
    yield action_of(call.service, call.operation), role or resource_of(call)
    if passed := _passed(call, environ):
        yield "iam:PassRole", passed


def _assumed(call: Call, environ: Environ) -> str:
    """Returns the role that a caller wants to assume."""
    if call.service != "sts" or not call.operation.startswith("AssumeRole"):
        return ""
    return {**call.query, **dict(form_fields(environ))}.get("RoleArn", "")


def _passed(call: Call, environ: Environ) -> str:
    """Returns the role that a caller passes to a new job, unless it is its own."""
    if (call.service, call.operation) != ("sagemaker", "CreateTrainingJob"):
        return ""
    body = read_body(environ, _MAX_BODY)
    rewind(environ, body)
    try:
        role = json.loads(body).get("RoleArn")
    except (ValueError, AttributeError, RecursionError):
        return ""  # The handler reports what is wrong with it.
    own = call.session.role if call.session else call.job.request["RoleArn"] if call.job else ""
    return role if isinstance(role, str) and role != own else ""


_log = logging.getLogger(__name__)

#: sagelet's own operations hold a body in memory. 100 hyperparameters of 2,500 characters are far below this limit.
MAX_BODY = 5 * 1024 * 1024
CONTROL_PREFIX = "/_sagelet/"
#: Open to everybody, so that a program can wait for a server.
HEALTH = "/_sagelet/health"


class Application:
    """The WSGI application.

    `services` maps a signing name (`sagemaker`, `logs`, `sts`) to its operations; `rest` are operations with a path of
    their own; `control` answers CONTROL_PREFIX; `checks` raise for calls that are refused whatever is in them; `apps`
    answer all requests of a service (`s3`), `fallback` (moto) every other signed one; both find their Call in
    `environ[CALL]`. `pages` are for browsers, `hub` is for clients of Hugging Face's, `routes` knows the
    paths of the other REST services.
    """

    def __init__(
        self,
        door: RequestGuard,
        control: WsgiApp,
        checks: Sequence[Callable[[Call], None]],
        services: Mapping[str, Operations],
        fallback: WsgiApp,
        apps: Mapping[str, WsgiApp] = MappingProxyType({}),
        rest: Iterable[RestOperation] = (),
        pages: WsgiApp | None = None,
        routes: Routes = no_routes,
        hub: Hub | None = None,
    ) -> None:
        self._door = door
        self._hub = hub
        self._pages = pages
        self._control = control
        self._checks = checks
        self._services = services
        self._fallback = fallback
        self._apps = apps
        self._routes = routes
        self._rest = {(one.signing_name, one.method, one.path): one for one in rest}
        self._handlers = (
            self._check,
            self._authorize,
            self._serve_own,
            self._serve_query,
            self._serve_own_rest,
            self._serve_others,
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        call = environ[CALL] = parse_call(environ)
        start = guarded(call, start_response, file=self._door.shows_here(call))
        try:
            self._door.check_origin(call)
            if self._pages is not None and self._is_for_page(call):
                self._door.check_page(call, environ)
                return self._pages(environ, start)
            if self._hub is not None and call.path.startswith(HUB_PREFIX) and not self._door.is_apart(call):
                return self._hub(call, environ, start)
            if call.path.startswith(CONTROL_PREFIX) and not self._door.is_apart(call):
                return self._serve_control(call, environ, start)
            if is_person(call) and not self._door.is_apart(call):
                return send(call, way_to_page(call, f"{environ['wsgi.url_scheme']}://{call.headers['host']}"), start)
            if (host := self._door.elsewhere(call)) is not None:
                return move(environ, host, start)
            call = self._door.admit(call, environ)
            call = environ[CALL] = name_operation(call, environ, self._rest, self._routes)
            for handle in self._handlers:
                answer = handle(call, environ, start)
                if answer is not None:
                    return answer
            raise InternalFailure("No handler answered the request.")
        except AwsError as error:
            return send(call, error_text(error) if is_person(call) else error_reply(call, error), start)
        except SageletError as error:
            # On purpose, with the remedy in its text: for example, the disk of the data directory is full.
            _log.warning("%s %s, request %s: %s", call.service, call.operation, call.request_id, error)
            return send(call, error_reply(call, InternalFailure(str(error))), start)
        except Exception:
            _log.exception("%s %s %s failed, request %s", call.service, call.operation, call.path, call.request_id)
            failure = InternalFailure(f"sagelet failed; its log has the traceback under request {call.request_id}.")
            return send(call, error_reply(call, failure), start)

    def _is_for_page(self, call: Call) -> bool:
        """True for the page. For signed requests, and for programs other than browsers, `/` is S3's list of buckets.

        Objects have other origins.
        """
        if self._door.is_apart(call):
            return False
        if call.path == "/":
            return call.credential is None and accepts_page(call)
        return call.path == PAGE_PREFIX or call.path.startswith(f"{PAGE_PREFIX}/")

    def _serve_control(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        self._door.check_control(call, environ, public=(call.method, call.path) == ("GET", HEALTH))
        return self._control(environ, start)

    def _check(self, call: Call, _environ: Environ, _start: StartResponse) -> None:
        for check in self._checks:
            check(call)

    def _authorize(self, call: Call, environ: Environ, _start: StartResponse) -> None:
        authorize(call, environ)

    def _serve_own(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        if call.service in QUERY_SERVICES:
            return None
        operation = self._services.get(call.service, {}).get(call.operation)
        if operation is None:
            _refuse_nameless(call, self._services)
            return None
        if (call.method, call.path) != ("POST", "/") or "x-amz-target" not in call.headers:
            # moto would answer from training jobs of its own.
            raise UnknownOperationException(
                f"{call.service} {call.operation} is a POST to / with X-Amz-Target, not {call.method} {call.path}"
            )
        body = read_body(environ, MAX_BODY)
        parameters = parse_json(body)
        context = _context(call)
        if isinstance(operation, SharedOperation):
            if not operation.is_ours(context, parameters):
                # moto fails on requests that AWS refuses.
                validate(call.service, call.operation, parameters)
                rewind(environ, body)
                return None
            operation = operation.handler
        with COMPUTING.taken():
            reply = json_reply(call, operation(context, validate(call.service, call.operation, parameters)))
        return send(call, reply, start)

    def _serve_query(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        """Does the same for services whose requests are forms. The form names the operation."""
        if call.service not in QUERY_SERVICES or call.path != "/":
            return None
        name = call.operation
        if not name:
            raise MissingAction(f"The request to {call.service} is missing an action: send Action")
        operation = self._services.get(call.service, {}).get(name)
        if operation is None:
            return None
        context, parameters = _context(call), parse_form(call.service, name, read_form(call, environ))
        if isinstance(operation, SharedOperation):
            if not operation.is_ours(context, parameters):
                return None
            operation = operation.handler
        result = operation(context, validate(call.service, name, parameters))
        return send(call, query_reply(call, name, result), start)

    def _serve_own_rest(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        one = self._rest.get((call.service, call.method, call.path))
        if one is None:
            return None
        parameters = validate(one.model, one.operation, parse_json(read_body(environ, MAX_BODY)))
        result = one.handler(_context(call), parameters)
        return send(call, json_reply(call, result), start)

    def _serve_others(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        return self._apps.get(call.service, self._fallback)(environ, start)


def _refuse_nameless(call: Call, services: Mapping[str, Operations]) -> None:
    """Refuses a POST to the root of a JSON service that names no operation. moto would send an empty answer."""
    if call.service in services and not call.operation and (call.method, call.path) == ("POST", "/"):
        raise UnknownOperationException(f"The request to {call.service} names no operation: send X-Amz-Target")


def _context(call: Call) -> Context:
    key = call.credential.access_key if call.credential else ""
    role = call.job.request["RoleArn"] if call.job else ""
    return Context(call.account, call.region, call.request_id, key, role, call.job_token, call.session)
