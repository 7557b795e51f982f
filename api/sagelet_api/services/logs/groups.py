"""CloudWatch Logs' operations on the log groups of jobs as a whole, and DescribeLogGroups for all groups."""

from collections.abc import Callable, Sequence

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import (
    LogsInvalidParameter,
    LogsResourceAlreadyExists,
    LogsResourceNotFound,
    LogsTooManyTags,
)
from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.operations import Context, Handler, Operations, SharedOperation
from sagelet_api.protocol.validation import constraint_error
from sagelet_engine.engine import Engine
from sagelet_engine.model.arns import arn
from sagelet_engine.model.job import JobKind
from sagelet_engine.model.log_events import LogGroup

#: Account and region -> the log groups that are not SageMaker's, as DescribeLogGroups shows them.
OtherGroups = Callable[[str, str], Sequence[Output]]

#: An account, a region and a kind of job name one of sagelet's groups.
GroupKey = tuple[str, str, JobKind]
MAX_GROUPS = 50
MAX_TAGS = 50
#: The values that PutRetentionPolicy takes on AWS.
RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
#: For the groups of jobs, moto would answer these with ResourceNotFound, because it does not have the groups.
REFUSED = (
    "AssociateKmsKey", "CreateExportTask", "CreateLogStream", "DisassociateKmsKey", "PutLogEvents", "PutMetricFilter",
    "PutSubscriptionFilter", "StartLiveTail", "StartQuery",
)  # fmt: skip
#: With pattern instead of prefix "only arn, creationTime, and logGroupName are included in the response".
PATTERN_MEMBERS = ("arn", "creationTime", "logGroupName")


class LogGroupOperations:
    """Handlers: each takes the call and its validated request, returns the members of the answer."""

    def __init__(self, engine: Engine, others: OtherGroups) -> None:
        self._groups = engine.log_groups
        self._others = others

    def describe_log_groups(self, context: Context, request: Request) -> Output:
        """Lists sagelet's groups and moto's, merged: "ASCII-sorted by log group name"."""
        prefix, pattern = request.get("logGroupNamePrefix", ""), request.get("logGroupNamePattern")
        if prefix and pattern:
            raise LogsInvalidParameter(
                "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters."
            )
        after = _after(context, request)
        wanted = [
            group
            for group in self._all(context)
            if group["logGroupName"].startswith(prefix)
            and (pattern or "") in group["logGroupName"]
            and group["logGroupClass"] == request.get("logGroupClass", group["logGroupClass"])
            and group["logGroupName"] > after
        ]
        limit = request.get("limit", MAX_GROUPS)
        page = wanted[:limit]
        if pattern:
            page = [{member: group[member] for member in PATTERN_MEMBERS} for group in page]
        answer: Output = {"logGroups": page}
        if len(wanted) > limit:
            answer["nextToken"] = page_tokens.encode(
                page_tokens.fingerprint(context, request), page[-1]["logGroupName"]
            )
        return answer

    def create_log_group(self, context: Context, request: Request) -> None:
        place = group_key_of(context, request)
        if self._groups.get(*place) is not None:
            raise LogsResourceAlreadyExists("The specified log group already exists")
        self._groups.create(*place, request.get("tags", {}))

    def delete_log_group(self, context: Context, request: Request) -> None:
        place = group_key_of(context, request)
        self._existing(place)
        self._groups.delete(*place)

    def put_retention_policy(self, context: Context, request: Request) -> None:
        days = request["retentionInDays"]
        if days not in RETENTION_DAYS:
            listed = ", ".join(map(str, RETENTION_DAYS))
            error = constraint_error("retentionInDays", days, f"Member must satisfy enum value set: [{listed}]")
            raise LogsInvalidParameter(f"1 validation error detected: {error}")
        place = group_key_of(context, request)
        self._existing(place)
        self._groups.set_retention(*place, days)

    def delete_retention_policy(self, context: Context, request: Request) -> None:
        place = group_key_of(context, request)
        self._existing(place)
        self._groups.set_retention(*place, None)

    def tag(self, context: Context, request: Request) -> None:
        place = group_key_of(context, request)
        tags = {**self._existing(place).tags, **request["tags"]}
        if len(tags) > MAX_TAGS:
            raise LogsTooManyTags("A resource can have no more than 50 tags.")
        self._groups.set_tags(*place, tags)

    def untag(self, context: Context, request: Request) -> None:
        gone = {*request.get("tags", ()), *request.get("tagKeys", ())}
        place = group_key_of(context, request)
        tags = {key: value for key, value in self._existing(place).tags.items() if key not in gone}
        self._groups.set_tags(*place, tags)

    def list_tags(self, context: Context, request: Request) -> Output:
        return {"tags": dict(self._existing(group_key_of(context, request)).tags)}

    def no_subscription_filters(self, context: Context, request: Request) -> Output:
        self._existing(group_key_of(context, request))
        return {"subscriptionFilters": []}

    def operations(self) -> Operations:
        """The table for the front."""
        handlers: dict[str, Handler] = {
            "CreateLogGroup": self.create_log_group,
            "DeleteLogGroup": self.delete_log_group,
            "PutRetentionPolicy": self.put_retention_policy,
            "DeleteRetentionPolicy": self.delete_retention_policy,
            "TagLogGroup": self.tag,
            "TagResource": self.tag,
            "UntagLogGroup": self.untag,
            "UntagResource": self.untag,
            "ListTagsLogGroup": self.list_tags,
            "ListTagsForResource": self.list_tags,
            "DescribeSubscriptionFilters": self.no_subscription_filters,
            **{name: _refusal(name) for name in REFUSED},
        }
        shared = {name: SharedOperation(handler, is_job_log) for name, handler in handlers.items()}
        return {"DescribeLogGroups": self.describe_log_groups, **shared}

    def _all(self, context: Context) -> list[Output]:
        groups = {group["logGroupName"]: group for group in self._others(context.account, context.region)}
        for kind in JobKind:
            ours = self._groups.get(context.account, context.region, kind)
            if ours is not None:
                groups[kind.log_group] = _group(context, kind.log_group, ours)
        return [{"logGroupClass": "STANDARD", **groups[name]} for name in sorted(groups)]

    def _existing(self, place: GroupKey) -> LogGroup:
        group = self._groups.get(*place)
        if group is None:
            raise LogsResourceNotFound("The specified log group does not exist.")
        return group


def is_job_log(context: Context, request: Parameters) -> bool:
    """True if a request is about the log group of a kind of jobs, by name, identifier or ARN."""
    return _kind_of(context, request) is not None


def group_key_of(context: Context, request: Request) -> GroupKey:
    """Returns the group of a request that `is_job_log` accepts."""
    kind = _kind_of(context, request)
    assert kind is not None
    return context.account, context.region, kind


def _kind_of(context: Context, request: Request) -> JobKind | None:
    values = [request.get(member) for member in ("logGroupName", "logGroupIdentifier", "resourceArn")]
    for member in ("logGroupNames", "logGroupIdentifiers"):
        listed = request.get(member)
        values += listed if isinstance(listed, list) else []
    texts = [value for value in values if isinstance(value, str)]
    return next((kind for kind in JobKind if any(_names_group(context, kind.log_group, one) for one in texts)), None)


def _names_group(context: Context, group: str, value: str) -> bool:
    arn = f":logs:{context.region}:{context.account}:log-group:{group}"
    return value == group or (value.startswith("arn:") and value.removesuffix(":*").endswith(arn))


def _refusal(operation: str) -> Handler:
    def refuse(context: Context, request: Parameters) -> None:
        kind = group_key_of(context, request)[-1]
        raise LogsInvalidParameter(
            f"sagelet does not have {operation} for {kind.log_group}, which holds what {kind.noun}s print and nothing "
            "else; use a log group of your own"
        )

    return refuse


def _after(context: Context, request: Request) -> str:
    """Returns the last name of the page before."""
    if "nextToken" not in request:
        return ""
    values = page_tokens.decode(request["nextToken"], str, str)
    if values is None or values[0] != page_tokens.fingerprint(context, request):
        raise LogsInvalidParameter("The specified nextToken is invalid.")
    return str(values[1])


def _group(context: Context, name: str, group: LogGroup) -> Output:
    whole = arn("logs", context.region, context.account, f"log-group:{name}")
    answer: Output = {
        "logGroupName": name,
        "creationTime": group.created_ms,
        "metricFilterCount": 0,
        "arn": f"{whole}:*",
        "logGroupArn": whole,
        "storedBytes": group.bytes,
    }
    return answer if group.retention_days is None else answer | {"retentionInDays": group.retention_days}
