"""AWS's Query protocol (STS, IAM): forms in, XML out, both after botocore's service model.

Source: https://smithy.io/2.0/aws/protocols/aws-query-protocol.html. Maps and flattened lists are not read or written,
because no operation of sagelet has them.
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from sagelet_api.protocol.calls import Call, Environ
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.operation_names import form_fields
from sagelet_api.protocol.replies import Reply
from sagelet_api.protocol.validation import rule_book

Form = Mapping[str, str]

#: Signing names of sagelet's services that speak it.
QUERY_SERVICES = frozenset({"iam", "sts"})
_NUMBERS = {"integer": int, "long": int, "float": float, "double": float}


def read_form(call: Call, environ: Environ) -> dict[str, str]:
    """Returns the fields of the query string and of the body. The body is put back for the next reader."""
    return {**call.query, **dict(form_fields(environ))}


def parse_form(service: str, operation: str, form: Form) -> Parameters:
    """Returns the operation's input. Text stays text where the model wants a number, and validation refuses it."""
    shape = rule_book(service).input_shape(operation)
    return {} if shape is None else _structure(shape, form, "")


def query_reply(call: Call, operation: str, result: Mapping[str, Any] | None) -> Reply:
    """Returns an operation's result as XML. Raises KeyError for members that the model does not have."""
    book = rule_book(call.service)
    shape = book.output_shape(operation)
    wrapper = "" if shape is None else _element(f"{operation}Result", _members(shape, result or {}))
    metadata = _element("ResponseMetadata", _element("RequestId", call.request_id))
    body = f'<{operation}Response xmlns="{book.namespace}">{wrapper}{metadata}</{operation}Response>'
    return Reply(200, body.encode(), {"Content-Type": "text/xml", "x-amzn-RequestId": call.request_id})


def _structure(shape: Any, form: Form, prefix: str) -> Parameters:
    given = {name: _value(member, form, f"{prefix}{name}") for name, member in shape.members.items()}
    return {name: value for name, value in given.items() if value is not None}


def _value(shape: Any, form: Form, name: str) -> Any:
    """Returns the value of a shape, or None if the form does not have it."""
    if shape.type_name == "structure":
        return _structure(shape, form, f"{name}.") or None
    if shape.type_name == "list":
        return list(_items(shape.member, form, f"{name}.member.")) or None
    return _scalar(shape.type_name, form[name]) if name in form else None


def _items(member: Any, form: Form, prefix: str) -> Iterator[Any]:
    number = 1
    while (value := _value(member, form, f"{prefix}{number}")) is not None:
        yield value
        number += 1


def _scalar(kind: str, text: str) -> Any:
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    try:
        return _NUMBERS.get(kind, str)(text)
    except ValueError:
        return text


def _members(shape: Any, value: Mapping[str, Any]) -> str:
    return "".join(_element(name, _content(shape.members[name], item)) for name, item in value.items())


def _content(shape: Any, value: Any) -> str:
    if shape.type_name == "structure":
        return _members(shape, value)
    if shape.type_name == "list":
        return "".join(_element("member", _content(shape.member, item)) for item in value)
    return str(value).lower() if isinstance(value, bool) else escape(str(value), quote=False)


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"
