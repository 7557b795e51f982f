"""What happens to a request, in order: the whole server on one screen.

`authorize` is the only place that permits a call. It runs after the call's operation is known, and before anything acts
on it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from sagelet_api.auth.needs import needs
from sagelet_api.auth.objects_origin import move
from sagelet_api.auth.people import error_text, is_person, way_to_page
from sagelet_api.auth.request_guard import RequestGuard, accepts_page, shows_page
from sagelet_api.auth.signature_errors import not_authorized
from sagelet_api.control import health
from sagelet_api.protocol.aws_errors import (
    RATE_EXCEEDED,
    AwsError,
    InternalFailure,
    MissingAction,
    ThrottlingException,
    UnknownOperationException,
)
from sagelet_api.protocol.calls import (
    CALL,
    Call,
    Environ,
    Protocol,
    StartResponse,
    WsgiApp,
    parse_call,
    parse_json,
    read_body,
    rewind,
)
from sagelet_api.protocol.operation_names import Routes, name_operation
from sagelet_api.protocol.operations import (
    MAX_BODY,
    Context,
    Operations,
    OwnProtocol,
    RefusedOperation,
    RestOperation,
    SharedOperation,
)
from sagelet_api.protocol.query import QUERY_SERVICES, parse_form, query_reply, read_form
from sagelet_api.protocol.replies import error_reply, json_reply, send
from sagelet_api.protocol.rest_paths import rest_protocol
from sagelet_api.protocol.validation import validate
from sagelet_api.web import PREFIX as PAGE_PREFIX
from sagelet_engine.base.concurrency import ConcurrencyLimit, TooBusy
from sagelet_engine.base.errors import SageletError
from sagelet_engine.hub.access import PREFIX as HUB_PREFIX
from sagelet_engine.model.principal import NotAuthorized

_log = logging.getLogger(__name__)

CONTROL_PREFIX = "/_sagelet/"
#: Answers a request, or returns None for one that is another handler's. Raises AwsError.
Handler = Callable[[Call, Environ, StartResponse], Iterable[bytes] | None]
#: Yields IAM's actions and their resources, all of which must be allowed to the caller.
Needs = Callable[[Call, Environ], Iterable[tuple[str, str]]]


def authorize(call: Call, environ: Environ, needed: Needs) -> None:
    """Raises NotAuthorized for what the caller may not do. An owner may do everything."""
    if call.permit is None:
        return
    if not call.model:
        # The operation is unknown, and so is what would run.
        raise UnknownOperationException(
            f"{call.service} {call.operation or f'{call.method} {call.path}'} is not an operation that sagelet knows."
        )
    for action, resource in needed(call, environ):
        call.permit(action, resource)


class Application:
    """The WSGI application.

    `services` maps a signing name (`sagemaker`, `logs`, `sts`) to its operations; `rest` are operations with a path of
    their own; `control` answers CONTROL_PREFIX; `checks` raise for calls of a service that are refused whatever is in
    them; `protocols` are services with a protocol of their own (`s3`); `fallback` (moto) answers every other signed
    request, and finds its Call in `environ[CALL]`. `pages` are for browsers, `hub` is for clients of Hugging Face's,
    `routes` knows the paths of the other REST services. The first call of a service in `protocols` loads it.
    """

    def __init__(
        self,
        guard: RequestGuard,
        control: WsgiApp,
        checks: Mapping[str, Callable[[Call], None]],
        services: Mapping[str, Operations],
        fallback: WsgiApp,
        protocols: Mapping[str, Callable[[], OwnProtocol]],
        rest: Iterable[RestOperation],
        pages: WsgiApp,
        routes: Routes,
        hub: Handler,
        computing: ConcurrencyLimit,
    ) -> None:
        """`computing` limits how many operations compute at the same time."""
        self._guard = guard
        self._computing = computing
        self._hub = hub
        self._pages = pages
        self._control = control
        self._checks = checks
        self._services = services
        self._fallback = fallback
        self._protocols = protocols
        self._routes = routes
        self._rest = {(one.signing_name, one.method, one.path): one for one in rest}
        #: sagelet's own paths, and browsers, which sign nothing. Objects have other origins than these.
        self._unsigned: tuple[Handler, ...] = (
            self._serve_page,
            self._serve_hub,
            self._serve_control,
            self._lead_person,
            self._move_browser,
        )
        own = (self._check, self._authorize, self._serve_own, self._serve_own_rest, self._serve_others)
        #: Signed requests, by signing name.
        self._signed: dict[str, tuple[Handler, ...]] = {
            **dict.fromkeys({*services, *(one.signing_name for one in self._rest.values())}, own),
            **dict.fromkeys(QUERY_SERVICES, (self._authorize, self._serve_query, self._serve_others)),
            **dict.fromkeys(protocols, (self._authorize_by_protocol, self._serve_by_protocol)),
        }
        self._others: tuple[Handler, ...] = (self._authorize, self._serve_others)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        call = environ[CALL] = parse_call(environ)
        start = self._guard.guarded(call, start_response)
        try:
            self._guard.check_origin(call)
            call = environ[CALL] = self._tell_from_s3(call)
            answer = None if self._guard.is_apart(call) else _first(self._unsigned, call, environ, start)
            if answer is None:
                call = environ[CALL] = self._guard.admit(call, environ)
                call = environ[CALL] = self._name(call, environ)
                answer = _first(self._signed.get(call.service, self._others), call, environ, start)
            if answer is None:
                raise InternalFailure("No handler answered the request.")
            return answer
        except AwsError as error:
            failure = error
        except NotAuthorized as error:
            failure = not_authorized(call, str(error))
        except TooBusy as error:
            _log.warning("%s %s, request %s: %s", call.service, call.operation, call.request_id, error)
            failure = ThrottlingException(RATE_EXCEEDED)
        except SageletError as error:
            # On purpose, with the remedy in its text: for example, the disk of the data directory is full.
            _log.warning("%s %s, request %s: %s", call.service, call.operation, call.request_id, error)
            failure = InternalFailure(str(error))
        except Exception:
            _log.exception("%s %s %s failed, request %s", call.service, call.operation, call.path, call.request_id)
            failure = InternalFailure(f"sagelet failed; its log has the traceback under request {call.request_id}.")
        is_read_by_person = is_person(call) or (_is_for_page(call) and shows_page(call))
        return send(call, error_text(failure) if is_read_by_person else error_reply(call, failure), start)

    def _tell_from_s3(self, call: Call) -> Call:
        """Returns the call with the protocol of a REST service, if its path is that service's and not a bucket's."""
        if call.credential is not None or call.protocol is not Protocol.S3 or self._guard.is_apart(call):
            return call
        protocol = rest_protocol(call.path)
        if protocol is None or any(service().has(call.path) for service in self._protocols.values()):
            return call
        return call._replace(protocol=protocol)

    def _serve_page(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        if not _is_for_page(call):
            return None
        self._guard.check_page(call, environ)
        return self._pages(environ, start)

    def _serve_hub(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        if not call.path.startswith(HUB_PREFIX):
            return None
        return self._hub(call, environ, start)

    def _serve_control(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        if not call.path.startswith(CONTROL_PREFIX):
            return None
        self._guard.check_control(call, environ, public=call.path == health.PATH)
        return self._control(environ, start)

    def _lead_person(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        if not call.is_read or not is_person(call):
            return None
        return send(call, way_to_page(call, f"{environ['wsgi.url_scheme']}://{call.headers['host']}"), start)

    def _move_browser(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        host = self._guard.elsewhere(call) if call.is_read else None
        return None if host is None else move(environ, host, start)

    def _name(self, call: Call, environ: Environ) -> Call:
        if (protocol := self._protocols.get(call.service)) is not None:
            return protocol().name_operation(call, environ)
        return name_operation(call, environ, self._rest, self._routes)

    def _check(self, call: Call, _environ: Environ, _start: StartResponse) -> None:
        if (check := self._checks.get(call.service)) is not None:
            check(call)

    def _authorize(self, call: Call, environ: Environ, _start: StartResponse) -> None:
        authorize(call, environ, needs)

    def _authorize_by_protocol(self, call: Call, environ: Environ, _start: StartResponse) -> None:
        authorize(call, environ, self._protocols[call.service]().needs)

    def _serve_by_protocol(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        return self._protocols[call.service]().answer(call, environ, start)

    def _serve_own(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        operation = self._services.get(call.service, {}).get(call.operation)
        if operation is None:
            _refuse_nameless(call, self._services)
            return None
        if isinstance(operation, RefusedOperation):
            raise UnknownOperationException(operation.reason)
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
        with self._computing.taken(context.account):
            reply = json_reply(call, operation(context, validate(call.service, call.operation, parameters)))
        return send(call, reply, start)

    def _serve_query(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
        """Does the same for services whose requests are forms. The form names the operation."""
        if call.path != "/":
            return None
        name = call.operation
        if not name:
            raise MissingAction(f"The request to {call.service} is missing an action: send Action")
        operation = self._services.get(call.service, {}).get(name)
        if operation is None:
            return None
        if isinstance(operation, RefusedOperation):
            raise UnknownOperationException(operation.reason)
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

    def _serve_others(self, _call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        return self._fallback(environ, start)


def _first(handlers: Iterable[Handler], call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes] | None:
    """Returns the answer of the first handler that has one, or None."""
    for handle in handlers:
        answer = handle(call, environ, start)
        if answer is not None:
            return answer
    return None


def _is_for_page(call: Call) -> bool:
    """True for the page. For signed requests, and for programs other than browsers, `/` is S3's list of buckets."""
    if call.path == "/":
        return call.credential is None and accepts_page(call)
    return call.path == PAGE_PREFIX or call.path.startswith(f"{PAGE_PREFIX}/")


def _refuse_nameless(call: Call, services: Mapping[str, Operations]) -> None:
    """Refuses a POST to the root of a JSON service that names no operation. moto would send an empty answer."""
    if call.service in services and not call.operation and (call.method, call.path) == ("POST", "/"):
        raise UnknownOperationException(f"The request to {call.service} names no operation: send X-Amz-Target")


def _context(call: Call) -> Context:
    key = call.credential.access_key if call.credential else ""
    role = call.job.request["RoleArn"] if call.job else ""
    operation = f"{call.service} {call.operation}"
    return Context(
        principal=call.caller,
        region=call.region,
        request_id=call.request_id,
        access_key=key,
        role=role,
        job_token=call.job_token,
        session=call.session,
        operation=operation,
    )
