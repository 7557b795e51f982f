"""What the operations on jobs of every kind have in common: tags, lists, and AWS's errors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import InternalFailure, NotFoundValidation, ResourceInUse, ValidationException
from sagelet_api.protocol.members import Request
from sagelet_api.protocol.operations import Context
from sagelet_api.services.sagemaker import training_rules
from sagelet_api.services.sagemaker.tags import MAX_TAGS, Taggable, Tags
from sagelet_engine.base.errors import (
    JobNotDeletable,
    JobNotFound,
    JobNotStoppable,
    WarmPoolAvailable,
)
from sagelet_engine.data.removal import DirectoryStays
from sagelet_engine.facets import JobsOf
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import J, JobKey, JobStatus, PoolStatus
from sagelet_engine.model.listing import Cursor, JobQuery, SortBy

#: True if SageMaker may assume a role. Takes the account and the role's ARN.
RoleCheck = Callable[[str, str], bool]


def any_role(_account: str, _role: str) -> bool:
    """Allows any role, without IAM."""
    return True


class JobOperations(Generic[J]):
    """Operations on the jobs of one kind. `jobs` are those of all accounts and regions."""

    def __init__(self, jobs: JobsOf[J]) -> None:
        self._jobs = jobs

    def key(self, context: Context, name: str) -> JobKey:
        return JobKey(context.account, context.region, name, self._jobs.kind)

    def get(self, key: JobKey) -> J:
        """Raises ValidationException, as AWS does for a missing job."""
        with existing():
            return self._jobs.get(key)

    def stop(self, key: JobKey) -> None:
        """Raises ValidationException."""
        try:
            with existing():
                self._jobs.stop(key)
        except JobNotStoppable as error:
            raise ValidationException(aws_texts.has_ended(error.status, self._jobs.kind.noun)) from error

    def delete(self, key: JobKey) -> None:
        """Raises ValidationException, ResourceInUse, InternalFailure."""
        noun = self._jobs.kind.noun
        try:
            with existing():
                self._jobs.delete(key)
        except JobNotDeletable as error:
            # The error's shape is the model's.
            raise ResourceInUse(
                f"The request was rejected because the {noun} is in status {error.status}; "
                f"only a {noun} that has ended can be deleted. Stop it first."
            ) from error
        except WarmPoolAvailable as error:
            # As above, the text is sagelet's.
            raise ResourceInUse(str(error)) from error
        except DirectoryStays as error:
            raise InternalFailure(str(error)) from error

    def taggable(self) -> Mapping[str, Taggable]:
        """Returns what the operations on tags need."""
        return {self._jobs.kind.value: Taggable(self._tags, self._put_tags, self._delete_tags)}

    def _tags(self, context: Context, name: str) -> Tags:
        return self.get(self.key(context, name)).tags

    def _put_tags(self, context: Context, name: str, tags: Tags) -> None:
        key = self.key(context, name)
        training_rules.check_tags(tags, spot=self.get(key).spec.spot)
        with existing():
            self._jobs.put_tags(key, tags, MAX_TAGS)

    def _delete_tags(self, context: Context, name: str, keys: Sequence[str]) -> None:
        with existing():
            self._jobs.delete_tags(self.key(context, name), keys)


@contextmanager
def existing() -> Iterator[None]:
    """Answers for a job that does not exist, or that was deleted meanwhile. Raises ValidationException."""
    try:
        yield
    except JobNotFound as error:
        raise not_found() from error


def not_found() -> NotFoundValidation:
    """Returns AWS's error for a missing job, a ValidationException. Terraform and botocore's waiter rely on it."""
    return NotFoundValidation(aws_texts.NOT_FOUND)


def job_query(context: Context, request: Request, default: SortBy = SortBy.CREATION_TIME) -> JobQuery:
    """Returns the query of a list. `default`: the order if the request names none."""
    status = request.get("StatusEquals")
    sort_by = SortBy(request.get("SortBy", default))
    unknown = status is not None and status not in {known.value for known in JobStatus}
    pool = request.get("WarmPoolStatusEquals")
    if unknown:
        # `Deleting` is in the model's enum, but no job of sagelet is ever in it.
        return JobQuery(context.account, context.region, name_contains="\0")
    return JobQuery(
        context.account,
        context.region,
        created_after_ms=_ms(request.get("CreationTimeAfter")),
        created_before_ms=_ms(request.get("CreationTimeBefore")),
        modified_after_ms=_ms(request.get("LastModifiedTimeAfter")),
        modified_before_ms=_ms(request.get("LastModifiedTimeBefore")),
        name_contains=request.get("NameContains"),
        status=JobStatus(status) if status else None,
        warm_pool=PoolStatus(pool) if pool else None,
        training_plan_arn=request.get("TrainingPlanArnEquals"),
        sort_by=sort_by,
        ascending=request.get("SortOrder", _order(request, default)) == "Ascending",
        limit=request.get("MaxResults", 10),
        after=_cursor(context, request, sort_by),
    )


def _order(request: Request, default: SortBy) -> str:
    """Returns the order of a list whose request names none.

    The model's documentation says ascending. Without a sort, too, ListTrainingJobs begins with the newest: the Note on
    its page ("from the most current to the oldest"), its example, and programs that read the first entry.
    """
    is_unsorted = "SortBy" not in request and default is SortBy.CREATION_TIME
    return "Descending" if is_unsorted else "Ascending"


def next_token(context: Context, request: Request, cursor: Cursor) -> str:
    """Returns the NextToken of a list. It continues this request only."""
    return page_tokens.encode(page_tokens.fingerprint(context, request), cursor.value, cursor.job_id)


def _ms(time: float | None) -> int | None:
    return None if time is None else round(time * 1000)


def _cursor(context: Context, request: Request, sort_by: SortBy) -> Cursor | None:
    if "NextToken" not in request:
        return None
    values = page_tokens.decode(request["NextToken"], str, int if sort_by is SortBy.CREATION_TIME else str, str)
    if values is None or values[0] != page_tokens.fingerprint(context, request):
        raise ValidationException(aws_texts.BAD_TOKEN)
    return Cursor(*values[1:])
