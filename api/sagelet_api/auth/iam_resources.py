"""The actions and resources of a request, as policies see them, for any service but S3.

A resource's name is read from the request only where the service takes it literally (`_NAMES`). Elsewhere the name is
UNKNOWN, because an alias of a key, for example, would lead past a denial of the key. Every place of a request that may
name a resource is read, so a second name restricts the caller, and does not replace the first.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any
from urllib.parse import unquote

from sagelet_api.auth.iam_actions import Action, actions_of
from sagelet_api.auth.policies import NO_RESOURCE, UNKNOWN
from sagelet_api.protocol import botocore_parts
from sagelet_api.protocol.calls import Call, Environ, read_body, rewind
from sagelet_api.protocol.operation_names import form_fields
from sagelet_api.protocol.operations import MAX_BODY
from sagelet_api.protocol.unpacking import unpack

#: The texts of a request by the names of its members, in lower case.
Members = Mapping[str, tuple[str, ...]]
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_LABEL = re.compile(r"\{(\w+)\+?\}")
_LISTED = re.compile(r"(\w+)\.(?:member\.)?\d+")
#: A name that every service takes as it is.
_PLAIN = re.compile(r"[A-Za-z0-9_.+=@#/-]{1,512}", re.ASCII)
_QUEUE = re.compile(r"https?://[^/?#\s]+/(?:queue/)?\d{12}/([A-Za-z0-9_-]{1,80}(?:\.fifo)?)", re.ASCII)
_FUNCTION = re.compile(r"(?:\d{12}:function:)?([\w-]{1,64})(:[$\w-]{1,128})?", re.ASCII)
#: What may follow the ARN of a resource in a request, and belongs to it: the version of a function.
_BEHIND = {"lambda": r"(?::[$\w-]{1,128})?", "logs": r"(?::\*)?"}
#: Services that take the beginning of an ARN for all of it.
_TAKES_BEGINNING = frozenset({"secretsmanager"})
_PARTITIONS = {"cn-": "aws-cn", "us-gov-": "aws-us-gov", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b"}


def _plain(value: str, _members: Members) -> str:
    return value if _PLAIN.fullmatch(value) else UNKNOWN


def _queue(value: str, _members: Members) -> str:
    url = _QUEUE.fullmatch(value)
    return url[1] if url else UNKNOWN


def _function(value: str, members: Members) -> str:
    """Returns the function with its version or alias, which is a part of the resource (Lambda developer guide)."""
    name, qualifiers = _FUNCTION.fullmatch(value), members.get("qualifier", ())
    if name is None or len(qualifiers) + bool(name[2]) > 1:
        return UNKNOWN
    return name[1] + (name[2] or "".join(f":{one}" for one in qualifiers))


def _secret(value: str, members: Members) -> str:
    """A secret's ARN ends with six characters that its name does not have."""
    return f"{_plain(value, members)}-{UNKNOWN}"


def _parameter(value: str, members: Members) -> str:
    return _plain(value.removeprefix("/"), members)


def _within_path(value: str, members: Members) -> str:
    """Returns a name of IAM. Its path is a part of the resource, and not of the request."""
    return f"{UNKNOWN}{_plain(value, members)}"


#: Returns the value of an ARN's variable: takes a text of the request, and all of them.
Read = Callable[[str, Members], str]
#: Members that hold the value of a variable, by service and variable. A variable that is not here has the member of the
#: same name. In other services no name is read.
_NAMES: Mapping[str, Mapping[str, tuple[tuple[str, Read], ...]]] = {
    "athena": {"WorkGroupName": (("workgroup", _plain),)},
    "dynamodb": {},
    "ecr": {"RepositoryName": (("repositoryname", _plain), ("repositorynames", _plain))},
    "firehose": {},
    "iam": {
        "GroupNameWithPath": (("groupname", _within_path),),
        "InstanceProfileNameWithPath": (("instanceprofilename", _within_path),),
        "PolicyNameWithPath": (("policyname", _within_path),),
        "RoleNameWithPath": (("rolename", _within_path),),
        "UserNameWithPath": (("username", _within_path),),
    },
    "kinesis": {},
    "lambda": {"FunctionName": (("functionname", _function),)},
    "logs": {
        "LogGroupName": tuple(
            (member, _plain)
            for member in ("loggroupname", "loggroupnames", "loggroupidentifier", "loggroupidentifiers")
        )
    },
    "monitoring": {
        "AlarmName": (("alarmname", _plain), ("alarmnames", _plain)),
        "DashboardName": (("dashboardname", _plain), ("dashboardnames", _plain)),
    },
    "sagemaker": {},
    "secretsmanager": {"SecretId": (("secretid", _secret), ("name", _secret))},
    "sns": {"TopicName": (("name", _plain),)},
    "sqs": {"QueueName": (("queueurl", _queue), ("queuename", _plain))},
    "ssm": {"ParameterNameWithoutLeadingSlash": (("name", _parameter), ("names", _parameter))},
    "states": {},
}


def requested(call: Call, environ: Environ) -> Iterator[tuple[str, str]]:
    """Yields the actions of a request and their resources, all of which must be allowed to the caller."""
    return needed(call.service, call.operation, call.region, call.account, _members(call, environ))


def needed(service: str, operation: str, region: str, account: str, members: Members) -> Iterator[tuple[str, str]]:
    """Does the same for a call from inside the server. `service`: its signing name. `members`: by `texts_of`."""
    scope = _Scope(service, region, account, members)
    for action in actions_of(service, operation):
        for resource in dict.fromkeys(scope.resources(action)):
            yield action.name, resource


def texts_of(body: Any) -> Members:
    """Returns the texts in the uppermost members of a body."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for name, value in body.items() if isinstance(body, dict) else ():
        values = value if isinstance(value, list) else [value]
        found[name.lower()] += tuple(one for one in values if isinstance(one, str))
    return found


class _Scope:
    """The resources that a request may name."""

    def __init__(self, service: str, region: str, account: str, members: Members) -> None:
        self._service = service
        self._members = members
        self._names = _NAMES.get(service)
        self._known = {"Partition": _partition(region), "Region": region, "Account": account}

    def resources(self, action: Action) -> Iterator[str]:
        if not action.known:
            yield UNKNOWN
            return
        if not action.required and not action.optional:
            yield NO_RESOURCE
        for template in action.required:
            yield from self._named(template) or [self._filled(template, {})]
        named = [one for template in action.optional for one in self._named(template)]
        yield from named
        if action.optional and not action.required and not named:
            yield self._some(action.optional)

    def _named(self, template: str) -> list[str]:
        """Returns the resources of a kind that the request names, by ARN or by name. Empty if it names none."""
        if self._names is None:
            return []
        by_arn = {value: arn for value in self._arns() if (arn := self._of_kind(template, value))}
        variables = [name for name in _VARIABLE.findall(template) if name not in self._known]
        if not variables:
            return [*by_arn.values()]
        values = [self._values(name, by_arn) for name in variables]
        filled = [self._filled(template, dict(zip(variables, one, strict=True))) for one in product(*values)]
        return [*by_arn.values(), *filled]

    def _arns(self) -> Iterator[str]:
        return (one for values in self._members.values() for one in values if one.startswith("arn:"))

    def _of_kind(self, template: str, arn: str) -> str:
        """Returns the resource that an ARN names, or an empty text for one of another kind, account or region."""
        pattern = _pattern(template, _BEHIND.get(self._service, ""), tuple(self._known.items()))
        if not pattern.fullmatch(arn):
            return ""
        if self._service in _TAKES_BEGINNING:
            return arn + UNKNOWN
        return _with_stars(template, arn.removesuffix(":*"))

    def _values(self, variable: str, by_arn: Iterable[str]) -> list[str]:
        assert self._names is not None
        sources = self._names.get(variable, ((variable.lower(), _plain),))
        return [
            read(value, self._members)
            for member, read in sources
            for value in self._members.get(member, ())
            if value not in by_arn
        ]

    def _filled(self, template: str, values: Mapping[str, str]) -> str:
        known = {**self._known, **values}
        return _with_stars(template, _VARIABLE.sub(lambda match: known.get(match[1], UNKNOWN), template))

    def _some(self, templates: Iterable[str]) -> str:
        """Returns what stands for a resource of any of these kinds."""
        texts = {":".join(self._filled(template, {}).split(":")[:5]) for template in templates}
        return f"{texts.pop()}:{UNKNOWN}" if len(texts) == 1 else UNKNOWN


def _with_stars(template: str, text: str) -> str:
    """Policies name a log group as DescribeLogGroups does, with `:*` behind it."""
    return f"{text}:*" if template.endswith(":log-group:${LogGroupName}") else text


@cache
def _pattern(template: str, behind: str, known: tuple[tuple[str, str], ...]) -> re.Pattern[str]:
    values = dict(known)
    parts = _VARIABLE.split(template)
    texts = [
        re.escape(part) if index % 2 == 0 else re.escape(values[part]) if part in values else "[^:\\s]+"
        for index, part in enumerate(parts)
    ]
    return re.compile("".join(texts) + behind)


def _partition(region: str) -> str:
    return next((name for start, name in _PARTITIONS.items() if region.startswith(start)), "aws")


def _members(call: Call, environ: Environ) -> Members:
    """Returns the texts of the path, the query string, and the body."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    fields = form_fields(environ)
    for name, value in [*call.query.items(), *fields, *_labels(call)]:
        listed = _LISTED.fullmatch(name)
        found[(listed[1] if listed else name).lower()] += (value,)
    for name, values in ({} if fields else texts_of(json_body(environ))).items():
        found[name] += values
    return found


def json_body(environ: Environ) -> Any:
    """Returns the JSON of a request, packed or not, as what runs will read it. None if it is not JSON."""
    body = unpack(environ, read_body(environ, MAX_BODY), MAX_BODY)
    rewind(environ, body)
    try:
        return json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return None  # Nothing is known then, and the handler reports what is wrong with it.


def _labels(call: Call) -> Iterator[tuple[str, str]]:
    """Yields the members that are parts of the path, for services whose operations are named by their path."""
    match = _path_of(call.model, call.operation).fullmatch(call.path) if call.routed else None
    for name, value in match.groupdict().items() if match else ():
        yield name, unquote(value)


@cache
def _path_of(model: str, operation: str) -> re.Pattern[str]:
    parts = _LABEL.split(_templates(model)[operation])
    return re.compile(
        "".join(re.escape(part) if index % 2 == 0 else f"(?P<{part}>[^/]+)" for index, part in enumerate(parts)) + "/?"
    )


@cache
def _templates(model: str) -> Mapping[str, str]:
    """Returns the paths of a service's operations: a model is large, and takes up to half a second to read."""
    operations = botocore_parts.model_data(model)["operations"].items()
    return {name: operation["http"]["requestUri"].partition("?")[0] for name, operation in operations}
