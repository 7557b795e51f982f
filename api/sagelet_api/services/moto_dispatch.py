"""moto runs the operation that was authorised, and no other. Part of the contact with moto.

moto looks for an operation's name in the form, the query string, a JSON body that it takes for a form, a header named
`Action` and the target, in an order of its own. Here it is told: what the front found (`operation_names.py`) is what it
dispatches. Where only the route names the operation (REST), moto's router finds it, and it is authorised then, which
comes on top of the front's own question: that asked for every operation of the service.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from sagelet_api.aws_errors import AmbiguousOperation
from sagelet_api.permissions import action_of, resource_of
from sagelet_api.protocol import Call

_CALL: ContextVar[Call | None] = ContextVar("sagelet_call", default=None)
_MARK = "sagelet_dispatch"


@contextmanager
def dispatching(call: Call) -> Iterator[None]:
    """What moto runs within the block is this call's operation."""
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)


def bind() -> None:
    """Once moto can be imported, and before it answers. May be repeated."""
    response: Any = import_module("moto.core.responses").BaseResponse
    if hasattr(response, _MARK):
        return
    setattr(response, _MARK, True)
    _name_actions(response)
    _check_actions(response)
    _check_views(response)


def _name_actions(response: Any) -> None:
    find = response._get_action

    def get_action(self: Any) -> Any:
        call = _CALL.get()
        if call is None:
            return find(self)
        return call.operation or self._get_action_from_method_and_request_uri(self.normalized_request)

    response._get_action = get_action


def _check_actions(response: Any) -> None:
    """Right before the operation runs."""
    authorize = response._authenticate_and_authorize_normal_action

    def authorize_action(self: Any, resource: str = "*") -> None:
        call = _CALL.get()
        if call is not None:
            # Services that find it in the path on their own (Batch, X-Ray) do not ask what was named.
            action = self._get_action() or ""
            if call.operation and action != call.operation:
                raise _ambiguous(call, action)
            if call.permit is not None and not call.operation:
                call.permit(action_of(call.service, action), resource_of(call))
        authorize(self, resource)

    response._authenticate_and_authorize_normal_action = authorize_action


def _check_views(response: Any) -> None:
    """A few routes lead to functions of their own, past all of the above: no name leads there."""
    view: Any = import_module("moto.core.utils").convert_to_flask_response
    answer, dispatch = view.__call__, response.dispatch.__func__

    def check_and_answer(self: Any, args: Any = None, **kwargs: Any) -> Any:
        call = _CALL.get()
        is_plain = getattr(self.callback, "__func__", None) is dispatch
        if call is not None and call.permit is not None and call.operation and not is_plain:
            raise _ambiguous(call, f"the route {call.method} {call.path}")
        return answer(self, args, **kwargs)

    view.__call__ = check_and_answer


def _ambiguous(call: Call, other: str) -> AmbiguousOperation:
    return AmbiguousOperation(f"The request names {call.operation}, and its path names {other}: send one of them.")
