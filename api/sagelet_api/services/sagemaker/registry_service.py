"""The operations of the model registry: models, model packages and their groups. They are kept, and nothing runs them.

As on AWS, a package of a group has the group's next version. Texts for which no source is named are sagelet's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import ConflictException, ValidationException
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations
from sagelet_api.services.sagemaker import registry_view as view
from sagelet_api.services.sagemaker.job_operations import RoleCheck
from sagelet_api.services.sagemaker.tags import MAX_TAGS, Taggable, Tags, tags_of
from sagelet_api.services.sagemaker.user_context import WhoCalls
from sagelet_engine.base.errors import RegistryInUse, RegistryNameInUse, RegistryNotFound, TooManyTags
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.arns import resource_in
from sagelet_engine.model.registry import RegistryEntry, RegistryKey, RegistryKind, RegistryQuery

_MODEL, _PACKAGE, _GROUP = RegistryKind.MODEL, RegistryKind.PACKAGE, RegistryKind.GROUP
#: Members of a Create call that Describe does not show.
_NOT_SHOWN = ("Tags", "ClientToken")


class RegistryOperations:
    """Handlers. Each takes the call and its validated request, and returns the members of the answer."""

    def __init__(self, engine: Engine, who: WhoCalls, may_assume: RoleCheck) -> None:
        self._registry = engine.registry
        self._now_ms = engine.now_ms
        self._who = who
        self._may_assume = may_assume

    # --- groups -----------------------------------------------------------------------------------------------------

    def create_group(self, context: Context, request: Request) -> Output:
        key = RegistryKey(context.account, context.region, _GROUP, request["ModelPackageGroupName"])
        return {"ModelPackageGroupArn": self._insert(context, key, request).key.arn}

    def describe_group(self, context: Context, request: Request) -> Output:
        return view.group(self._get(_named(context, _GROUP, request["ModelPackageGroupName"])))

    def list_groups(self, context: Context, request: Request) -> Output:
        if request.get("CrossAccountFilterOption") == "CrossAccount":
            return {"ModelPackageGroupSummaryList": []}  # Nobody shares groups with this account.
        entries, more = self._page(context, request, _query(context, request, _GROUP))
        return {"ModelPackageGroupSummaryList": [view.group_summary(one) for one in entries], **more}

    def delete_group(self, context: Context, request: Request) -> None:
        self._delete(_named(context, _GROUP, request["ModelPackageGroupName"]))

    # --- packages ---------------------------------------------------------------------------------------------------

    def create_package(self, context: Context, request: Request) -> Output:
        group, name = request.get("ModelPackageGroupName"), request.get("ModelPackageName")
        if group is None and name is None:
            raise ValidationException(aws_texts.NO_PACKAGE_NAME)
        if group is None:
            key = RegistryKey(context.account, context.region, _PACKAGE, str(name))
            return {"ModelPackageArn": self._insert(context, key, request).key.arn}
        if name is not None:
            raise ValidationException(aws_texts.TWO_PACKAGE_NAMES)
        if request.get("Tags"):
            raise ValidationException("A model package in a group has the tags of its group: tag the group.")
        named = _named(context, _GROUP, group)
        entry = self._entry(context, replace(named, kind=_PACKAGE), request)
        body = {"ModelApprovalStatus": "PendingManualApproval", **entry.body}
        with _existing():
            group_name = self._registry.get(named).key.name
            body["ModelPackageGroupName"] = group_name
            key = replace(entry.key, name=group_name)
            made = self._registry.insert_version(replace(entry, key=key, body=body))
        return {"ModelPackageArn": made.key.arn}

    def describe_package(self, context: Context, request: Request) -> Output:
        shown = view.package(self._get(_named(context, _PACKAGE, request["ModelPackageName"])))
        if request.get("IncludedData") == "MetadataOnly":
            shown.pop("ModelCard", None)
        return shown

    def list_packages(self, context: Context, request: Request) -> Output:
        query = _query(context, request, _PACKAGE)._replace(approval=request.get("ModelApprovalStatus"))
        if "ModelPackageGroupName" in request:
            group = self._get(_named(context, _GROUP, request["ModelPackageGroupName"]))
            query = query._replace(group_arn=group.key.arn)
        else:
            kind = request.get("ModelPackageType", "Unversioned")
            query = query._replace(versioned={"Versioned": True, "Unversioned": False}.get(kind))
        entries, more = self._page(context, request, query)
        return {"ModelPackageSummaryList": [view.package_summary(one) for one in entries], **more}

    def update_package(self, context: Context, request: Request) -> Output:
        key, who = _named(context, _PACKAGE, request["ModelPackageArn"]), self._who(context)
        token = request.get("ClientToken", "")

        def change(before: RegistryEntry) -> RegistryEntry:
            if token and token == before.update_token:
                return before
            body, now_ms = view.updated(before.body, request), max(self._now_ms(), before.modified_ms)
            return replace(before, body=body, modified_ms=now_ms, modified_by=who, update_token=token)

        with _existing():
            return {"ModelPackageArn": self._registry.change(key, change).key.arn}

    def delete_package(self, context: Context, request: Request) -> None:
        self._delete(_named(context, _PACKAGE, request["ModelPackageName"]))

    # --- models -----------------------------------------------------------------------------------------------------

    def create_model(self, context: Context, request: Request) -> Output:
        role = request.get("ExecutionRoleArn")
        if role is not None and not self._may_assume(context.account, role):
            raise ValidationException(aws_texts.role_not_assumable(role))
        key = RegistryKey(context.account, context.region, _MODEL, request["ModelName"])
        return {"ModelArn": self._insert(context, key, request).key.arn}

    def describe_model(self, context: Context, request: Request) -> Output:
        return view.model(self._get(_named(context, _MODEL, request["ModelName"])))

    def list_models(self, context: Context, request: Request) -> Output:
        entries, more = self._page(context, request, _query(context, request, _MODEL, order="Descending"))
        return {"Models": [view.model_summary(one) for one in entries], **more}

    def delete_model(self, context: Context, request: Request) -> None:
        self._delete(_named(context, _MODEL, request["ModelName"]))

    def has_model(self, account: str, region: str, name: str) -> bool:
        """True if there is a model of this name."""
        try:
            self._registry.get(RegistryKey(account, region, _MODEL, name))
        except RegistryNotFound:
            return False
        return True

    # --- all kinds --------------------------------------------------------------------------------------------------

    def taggable(self) -> Mapping[str, Taggable]:
        """Returns what the operations on tags need."""
        return {
            kind.value: Taggable(
                partial(self._tags, kind), partial(self._put_tags, kind), partial(self._delete_tags, kind)
            )
            for kind in RegistryKind
        }

    def operations(self) -> Operations:
        """Returns the operations for the application."""
        return {
            "CreateModelPackageGroup": self.create_group,
            "DescribeModelPackageGroup": self.describe_group,
            "ListModelPackageGroups": self.list_groups,
            "DeleteModelPackageGroup": self.delete_group,
            "CreateModelPackage": self.create_package,
            "DescribeModelPackage": self.describe_package,
            "ListModelPackages": self.list_packages,
            "UpdateModelPackage": self.update_package,
            "DeleteModelPackage": self.delete_package,
            "CreateModel": self.create_model,
            "DescribeModel": self.describe_model,
            "ListModels": self.list_models,
            "DeleteModel": self.delete_model,
        }

    def _entry(self, context: Context, key: RegistryKey, request: Request) -> RegistryEntry:
        body = {name: value for name, value in request.items() if name not in _NOT_SHOWN}
        now_ms, who, token = self._now_ms(), self._who(context), request.get("ClientToken", "")
        return RegistryEntry(key, now_ms, now_ms, body, who, who, tags_of(request), token)

    def _insert(self, context: Context, key: RegistryKey, request: Request) -> RegistryEntry:
        try:
            return self._registry.insert(self._entry(context, key, request))
        except RegistryNameInUse as error:
            raise ValidationException(_TAKEN[key.kind](str(error))) from error

    def _get(self, key: RegistryKey) -> RegistryEntry:
        with _existing():
            return self._registry.get(key)

    def _delete(self, key: RegistryKey) -> None:
        try:
            with _existing():
                self._registry.delete(key)
        except RegistryInUse as error:
            raise ConflictException(f"The group {error} has model packages. Delete them first.") from error

    def _page(self, context: Context, request: Request, query: RegistryQuery) -> tuple[Sequence[RegistryEntry], Output]:
        """Returns the entries of a page, and NextToken if there are more."""
        entries = self._registry.page(query)
        if len(entries) <= query.limit:
            return entries, {}
        last = entries[query.limit - 1]
        place = last.key.name if query.by_name else last.created_ms
        token = page_tokens.encode(page_tokens.fingerprint(context, request), place, last.key.arn)
        return entries[: query.limit], {"NextToken": token}

    def _tags(self, kind: RegistryKind, context: Context, name: str) -> Tags:
        """Returns the tags of an entry. A package in a group has those of the group (API reference)."""
        key = _key(context, kind, name)
        self._get(key)
        return self._get(key.group or key).tags

    def _put_tags(self, kind: RegistryKind, context: Context, name: str, tags: Tags) -> None:
        def change(before: RegistryEntry) -> RegistryEntry:
            after = {**before.tags, **tags}
            if len(after) > MAX_TAGS:
                raise TooManyTags(MAX_TAGS)
            return replace(before, tags=after)

        self._change_tags(_key(context, kind, name), change)

    def _delete_tags(self, kind: RegistryKind, context: Context, name: str, keys: Sequence[str]) -> None:
        def change(before: RegistryEntry) -> RegistryEntry:
            return replace(before, tags={key: value for key, value in before.tags.items() if key not in keys})

        self._change_tags(_key(context, kind, name), change)

    def _change_tags(self, key: RegistryKey, change: Callable[[RegistryEntry], RegistryEntry]) -> None:
        self._get(key)
        if key.group is not None:
            raise ValidationException(f"A model package in a group has the tags of its group: tag {key.group.arn}.")
        with _existing():
            self._registry.change(key, change)


#: What AWS says of a name that is taken, by its ARN.
_TAKEN: Mapping[RegistryKind, Callable[[str], str]] = {
    _MODEL: aws_texts.model_taken,
    _PACKAGE: aws_texts.package_taken,
    _GROUP: aws_texts.group_taken,
}


@contextmanager
def _existing() -> Iterator[None]:
    """Answers for what does not exist, or was deleted meanwhile. Raises ValidationException, as AWS does."""
    try:
        yield
    except RegistryNotFound as error:
        raise ValidationException(aws_texts.not_registered(str(error))) from error


def _key(context: Context, kind: RegistryKind, name: str) -> RegistryKey:
    return RegistryKey(context.account, context.region, kind, name)


def _named(context: Context, kind: RegistryKind, name: str) -> RegistryKey:
    """Returns the key of what a request names by its name or ARN. Raises ValidationException for an ARN of elsewhere,
    or of another kind.
    """
    if not name.startswith("arn:"):
        return _key(context, kind, name)
    resource = resource_in(name, "sagemaker", context.region, context.account) or ""
    word, _, rest = resource.partition("/")
    if word != kind.value or not rest:
        raise ValidationException(aws_texts.not_registered(name))
    return _key(context, kind, rest)


def _query(context: Context, request: Request, kind: RegistryKind, order: str = "Ascending") -> RegistryQuery:
    """Returns the query of a list. `order`: if the request names none. Defaults are those of the API reference."""
    by_name = request.get("SortBy", "CreationTime") == "Name"
    after, before = request.get("CreationTimeAfter"), request.get("CreationTimeBefore")
    return RegistryQuery(
        context.account,
        context.region,
        kind,
        request.get("NameContains", ""),
        None if after is None else round(after * 1000),
        None if before is None else round(before * 1000),
        by_name=by_name,
        ascending=request.get("SortOrder", order) == "Ascending",
        limit=request.get("MaxResults", 10),
        after=_after(context, request, by_name),
    )


def _after(context: Context, request: Request, by_name: bool) -> tuple[str | int, str] | None:
    if "NextToken" not in request:
        return None
    values = page_tokens.decode(request["NextToken"], str, str if by_name else int, str)
    if values is None or values[0] != page_tokens.fingerprint(context, request):
        raise ValidationException(aws_texts.BAD_TOKEN)
    return values[1], values[2]
