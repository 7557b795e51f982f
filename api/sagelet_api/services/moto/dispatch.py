"""Makes moto run the operation that was authorized, and no other.

moto looks for an operation's name in the form, the query string, a JSON body that it takes for a form, a header named
`Action` and the target, in an order of its own. Here it gets the name that `operation_names.py` found. If method and
path name the operation (REST), moto's router is asked before the authorization and again when it dispatches, and the
two answers are compared.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from sagelet_api.protocol.aws_errors import AmbiguousOperation
from sagelet_api.protocol.calls import Call, Environ
from sagelet_api.protocol.operation_names import signing_name_of

_CALL: ContextVar[Call | None] = ContextVar("sagelet_call", default=None)
_MARK = "sagelet_dispatch"
#: These services take a part of the path for the operation (`/v1/createjobqueue`), whatever the router says.
_BY_PATH = frozenset({"moto.batch.responses", "moto.polly.responses"})
#: What stands behind Polly's paths in moto. botocore's model has more operations on them, which would run one of these.
_POLLY = {
    "voices": frozenset({"DescribeVoices"}),
    "lexicons": frozenset({"DeleteLexicon", "GetLexicon", "ListLexicons", "PutLexicon"}),
    "speech": frozenset({"SynthesizeSpeech"}),
}
#: Functions that choose a class and have it dispatch.
_DISPATCHING = frozenset({"api_version_elb_backend"})


@contextmanager
def dispatching(call: Call) -> Iterator[None]:
    """Makes moto run this call's operation within the block."""
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)


def bind() -> None:
    """Installs the checks in moto. Called when moto can be imported, and before it answers. May be repeated."""
    response: Any = import_module("moto.core.responses").BaseResponse
    if hasattr(response, _MARK):
        return
    setattr(response, _MARK, True)
    _name_actions(response)
    _check_actions(response)
    _check_views(response)


def route(models: Sequence[str], environ: Environ) -> tuple[str, str] | None:
    """Returns service and operation of a method and path, by moto's router over botocore's model. None if there is
    none.
    """
    routing, http = import_module("moto.core.routing"), import_module("werkzeug.exceptions")
    request = import_module("moto.core.request").Request({**environ, "CONTENT_TYPE": ""})
    for model in models:
        try:
            operation, _ = routing.get_service_router(model).match(request)
        except (http.HTTPException, NotImplementedError):
            continue
        return model, str(operation.name)
    return None


def _name_actions(response: Any) -> None:
    find = response._get_action

    def get_action(self: Any) -> Any:
        call = _CALL.get()
        if call is None or not (call.model or call.operation):
            return find(self)
        # The router also finds the parameters in a path.
        return self._get_action_from_method_and_request_uri(self.normalized_request) if call.routed else call.operation

    response._get_action = get_action


def _check_actions(response: Any) -> None:
    """Checks right before the operation runs. What moto does not have raises NotImplementedError, as in moto."""
    authorize = response._authenticate_and_authorize_normal_action

    def authorize_action(self: Any, resource: str = "*") -> None:
        call = _CALL.get()
        if call is not None and call.model:
            action = _action(self, call)
            if action != call.operation:
                raise _ambiguous(call, action or "nothing")
            if type(self).__module__ == "moto.polly.responses" and action not in _POLLY.get(self._get_action(), ()):
                raise NotImplementedError
            service = signing_name_of(self.boto3_service_name)
            if service not in (None, call.service):
                raise _ambiguous(call, f"{self.boto3_service_name} {action}")
        authorize(self, resource)

    response._authenticate_and_authorize_normal_action = authorize_action


def _action(response: Any, call: Call) -> str:
    if type(response).__module__ in _BY_PATH and call.routed:
        found = response._get_action_from_method_and_request_uri(response.normalized_request)
    else:
        found = response._get_action()
    return found or ""


def _check_views(response: Any) -> None:
    """Checks routes that lead to functions of their own, past the checks above. What those functions run is not known
    beforehand.
    """
    view: Any = import_module("moto.core.utils").convert_to_flask_response
    answer, dispatch = view.__call__, response.dispatch.__func__

    def check_and_answer(self: Any, args: Any = None, **kwargs: Any) -> Any:
        call = _CALL.get()
        is_plain = getattr(self.callback, "__func__", None) is dispatch or self.callback.__name__ in _DISPATCHING
        if call is not None and call.permit is not None and not is_plain and call.service != "s3":
            raise _ambiguous(call, f"the route {call.method} {call.path}")
        return answer(self, args, **kwargs)

    view.__call__ = check_and_answer


def _ambiguous(call: Call, other: str) -> AmbiguousOperation:
    return AmbiguousOperation(f"The request names {call.operation}, and its path names {other}: send one of them.")
