"""Finds which operation a request names. This is done once, so authorization and execution use the same answer.
S3's requests are named by `protocol/s3/request.py`.

AWS's protocols put the name into a header (AWS JSON), the path (CBOR), method and path (REST, S3), the query string or
a form (Query). A request that names an operation in two of these places would mean one thing to the check and another
to the handler, so it is refused, whoever sends it. A name that is not spelled as in botocore's model of the service is
refused, too: moto takes `delete_alarms` for `DeleteAlarms`, and a policy does not.

Several services share a signing name: SageMaker, its metrics and its runtime all sign as `sagemaker`. So the operation
also tells which of botocore's models is meant. The table `service_models.json` has the models of services that sagelet
or moto answers. It saves loading 400 models to learn that (3 s). A unit test compares it with botocore's models.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl

from sagelet_api.protocol import botocore_parts
from sagelet_api.protocol.aws_errors import (
    AmbiguousOperation,
    AwsError,
    InvalidAction,
    MalformedQueryString,
    UnknownOperationException,
)
from sagelet_api.protocol.calls import Call, Environ, Protocol, read_body, rewind
from sagelet_api.protocol.operations import RestOperation
from sagelet_api.protocol.unpacking import unpack

#: Forms are small. The largest are CloudFormation templates of 1 MB.
MAX_FORM = 8 * 1024 * 1024
_FORM = "application/x-www-form-urlencoded"
_OPERATION = "/operation/"
RestTable = Mapping[tuple[str, str, str], RestOperation]
#: Takes botocore's names of REST services and a request. Returns the service and operation that method and path mean,
#: or None.
Routes = Callable[[Sequence[str], Environ], tuple[str, str] | None]
#: The places where Query's `Action` may be.
_FIELDS = ("the query string", "the form")
#: A place, and the name in it.
Name = tuple[str, str]


@dataclass(frozen=True)
class ServiceModel:
    """How requests of one of botocore's services name their operation."""

    #: botocore's name of it: `cloudwatch`, whose requests are signed for `monitoring`.
    name: str
    #: The name before the operation's in X-Amz-Target (`SageMaker`), or in a path of RPC v2. None if it has no such
    #: name.
    prefix: str | None
    #: True if `Action` in a form or query string names the operation.
    query: bool
    #: True if method and path identify the operation.
    rest: bool

    @property
    def operations(self) -> frozenset[str]:
        return _operations(self.name)


def models_of(signing_name: str) -> tuple[ServiceModel, ...]:
    """Returns the models of a signing name. Empty for a service that nobody here answers."""
    return _table().get(signing_name, ())


def signing_names() -> list[str]:
    """Returns the signing names of all services that sagelet or moto answers."""
    return [*_table()]


def signing_name_of(model: str) -> str | None:
    return _signing_names().get(model)


def rest_models() -> list[str]:
    """Returns botocore's names of the services in which method and path identify the operation."""
    return [model.name for models in _table().values() for model in models if model.rest]


def name_operation(call: Call, environ: Environ, rest: RestTable, routes: Routes) -> Call:
    """Returns the call with its `operation`, and its `model` if a known service has the operation.

    Raises AwsError for a request that names two operations, or an operation that the service does not have.
    """
    models = models_of(call.service)
    named = [*_names(call, environ)]
    routed = _route(call, environ, rest, models, routes, named=bool(named))
    found = [*named, *([] if routed is None else [("the path", routed[1])])]
    if len(found) > 1:
        raise AmbiguousOperation(
            f"The request names {len(found)} operations ({', '.join(f'{where}: {name}' for where, name in found)}): "
            "send one name, in one place."
        )
    if routed is not None:
        return call._replace(model=routed[0], operation=routed[1], routed=True)
    if not named:
        return call
    if named[0][0] in _FIELDS:
        _refuse_repeated(environ)
    return _checked(call, models, *named[0])


def _names(call: Call, environ: Environ) -> Iterator[Name]:
    """Yields each place that names an operation, with the name. The caller chose the names, so they may be any text."""
    if target := call.headers.get("x-amz-target"):
        yield "X-Amz-Target", target
    if "smithy-protocol" in call.headers and _OPERATION in call.path:
        yield "the path", call.path
    query = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    yield from (("the query string", value) for name, value in query if name == "Action" and value)
    yield from (("the form", value) for name, value in form_fields(environ) if name == "Action" and value)


def _route(
    call: Call, environ: Environ, rest: RestTable, models: Sequence[ServiceModel], routes: Routes, *, named: bool
) -> tuple[str, str] | None:
    if one := rest.get((call.service, call.method, call.path)):
        return one.model, one.operation
    candidates = [model.name for model in models if model.rest]
    # In the other protocols every request goes to the root, and no REST service has an operation with a POST there.
    return routes(candidates, environ) if candidates and not (named and call.path == "/") else None


def _checked(call: Call, models: Sequence[ServiceModel], where: str, text: str) -> Call:
    """Returns the call with the name, if the service has such an operation that is reached this way."""
    prefix, name = _split(where, text)
    if not models:
        # No model here has the service.
        return call._replace(operation=name)
    if where in ("X-Amz-Target", "the path"):
        model = next((one for one in models if one.prefix == prefix and name in one.operations), None)
        if model is None:
            raise UnknownOperationException(f"{call.service} has no operation {name!r} of {prefix!r}")
    else:
        model = next((one for one in models if one.query and name in one.operations), None)
        if model is None:
            raise _no_action(call, name)
    # SQS's clients may send to the URL of a queue.
    if where != "the path" and call.path != "/" and call.service != "sqs":
        raise UnknownOperationException(f"{call.service} {name} is asked for at /, not at {call.path}")
    if where == "X-Amz-Target" and call.method != "POST":
        raise UnknownOperationException(
            f"{call.service} {name} is a POST to / with X-Amz-Target, not {call.method} {call.path}"
        )
    return call._replace(model=model.name, operation=name)


def _split(where: str, text: str) -> tuple[str, str]:
    """Returns the prefix of the name (`SageMaker`), and the name."""
    if where == "X-Amz-Target":
        prefix, _, name = text.rpartition(".")
        return prefix, name
    if where == "the path":
        prefix, _, name = text.removeprefix("/service/").rpartition(_OPERATION)
        return prefix, name
    return "", text


def _no_action(call: Call, name: str) -> AwsError:
    if call.protocol is Protocol.QUERY and any(one.query for one in models_of(call.service)):
        return InvalidAction(f"Could not find operation {name} of {call.service}")
    return UnknownOperationException(f"{call.service} has no operation {name!r} that an Action names")


def _refuse_repeated(environ: Environ) -> None:
    """Refuses a field that occurs twice. Query numbers several fields of a kind; of two with one name, readers choose
    either.
    """
    fields = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True) + form_fields(environ)
    for name, times in Counter(name for name, _ in fields).items():
        if times > 1:
            raise MalformedQueryString(f"The parameter {name} occurs {times} times.")


def form_fields(environ: Environ) -> list[tuple[str, str]]:
    """Returns the fields of a body that is a form, and puts the body back for the next reader.

    A compressed body is unpacked. Raises IncompleteBody, RequestEntityTooLarge.
    """
    if not str(environ.get("CONTENT_TYPE") or "").strip().lower().startswith(_FORM):
        return []
    body = unpack(environ, read_body(environ, MAX_FORM), MAX_FORM)
    rewind(environ, body)
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)


@cache
def _table() -> Mapping[str, tuple[ServiceModel, ...]]:
    rows = json.loads(Path(__file__).with_name("service_models.json").read_text())
    return {signing: tuple(_model(*one) for one in models.items()) for signing, models in rows.items()}


@cache
def _signing_names() -> Mapping[str, str]:
    return {model.name: signing for signing, models in _table().items() for model in models}


def _model(name: str, text: str) -> ServiceModel:
    words = text.split()
    return ServiceModel(name, words[-1] if "json" in words else None, "query" in words, "rest" in words)


@cache
def _operations(model: str) -> frozenset[str]:
    """Returns the names only: a model is large, and code that needs one loads it."""
    return frozenset(botocore_parts.model_data(model)["operations"])
