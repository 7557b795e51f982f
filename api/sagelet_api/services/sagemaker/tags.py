"""ListTags, AddTags and DeleteTags, for every kind of resource that sagelet keeps, by one rule."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sagelet_api.protocol.aws_errors import ResourceLimitExceeded, ValidationException
from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.operations import Context, Operations, SharedOperation
from sagelet_api.services.sagemaker.training_rules import duplicates
from sagelet_engine.base.errors import TooManyTags
from sagelet_engine.model import aws_texts
from sagelet_engine.model.arns import resource_in

#: AWS's documented limit (botocore shape TagList).
MAX_TAGS = 50
Tags = Mapping[str, str]


@dataclass(frozen=True)
class Taggable:
    """The tags of one kind. Each function takes the call and the resource's name; each raises AwsError."""

    get: Callable[[Context, str], Tags]
    #: Adds all tags or none. Raises TooManyTags.
    put: Callable[[Context, str, Tags], None]
    delete: Callable[[Context, str, Sequence[str]], None]


def tags_of(request: Request) -> dict[str, str]:
    """Returns the tags of a request. Raises ValidationException for tags that no resource may have."""
    tags = request.get("Tags", [])
    for problem in tag_problems(tag["Key"] for tag in tags):
        raise ValidationException(problem)
    return {tag["Key"]: tag["Value"] for tag in tags}


def tag_problems(keys: Iterable[str]) -> Iterator[str]:
    """Yields the problems of tags' keys. The rules are AWS's tagging rules."""
    keys = list(keys)
    for key in duplicates(keys):
        yield f"Duplicate tag key {key!r}"
    for key in keys:
        if key.lower().startswith("aws:"):
            yield f"Tag key {key!r}: the prefix aws: is reserved for AWS; choose another key"


class TagOperations:
    """Handlers. `kinds`: by the word of the kind in ARNs, such as `training-job`."""

    def __init__(self, kinds: Mapping[str, Taggable]) -> None:
        self._kinds = kinds

    def list_tags(self, context: Context, request: Request) -> Output:
        kind, name = self._resource(context, request)
        return _shown(kind.get(context, name))

    def add_tags(self, context: Context, request: Request) -> Output:
        kind, name = self._resource(context, request)
        tags = tags_of(request)
        try:
            kind.put(context, name, tags)
        except TooManyTags as error:
            raise ResourceLimitExceeded(str(error)) from error
        return _shown(kind.get(context, name))

    def delete_tags(self, context: Context, request: Request) -> Output:
        kind, name = self._resource(context, request)
        kind.delete(context, name, request["TagKeys"])
        return {}

    def operations(self) -> Operations:
        """Returns the operations for the application. Tags of other kinds are moto's."""
        return {
            "ListTags": SharedOperation(self.list_tags, self._is_ours),
            "AddTags": SharedOperation(self.add_tags, self._is_ours),
            "DeleteTags": SharedOperation(self.delete_tags, self._is_ours),
        }

    def _is_ours(self, _context: Context, parameters: Parameters) -> bool:
        return _kind(parameters.get("ResourceArn")) in self._kinds

    def _resource(self, context: Context, request: Request) -> tuple[Taggable, str]:
        """Returns the kind and the name of what an ARN names. An ARN of elsewhere names nothing here."""
        arn = request["ResourceArn"]
        resource = resource_in(arn, "sagemaker", context.region, context.account)
        if resource is None:
            raise ValidationException(aws_texts.NOT_FOUND)
        return self._kinds[_kind(arn)], resource.partition("/")[2]


def _kind(arn: Any) -> str:
    """Returns `training-job` of `arn:aws:sagemaker:us-east-1:123456789012:training-job/NAME`."""
    return arn.split(":", 5)[-1].partition("/")[0].lower() if isinstance(arn, str) else ""


def _shown(tags: Tags) -> Output:
    return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
