"""What the operations on jobs of every kind have in common: tags, lists, and AWS's errors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Generic

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import (
    RATE_EXCEEDED,
    InternalFailure,
    NotFoundValidation,
    ResourceInUse,
    ThrottlingException,
    ValidationException,
)
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations
from sagelet_api.services.sagemaker import training_rules
from sagelet_api.services.sagemaker.tags import MAX_TAGS, Taggable, Tags, tags_of
from sagelet_api.services.sagemaker.training_rules import Images
from sagelet_engine.base.errors import (
    JobNameInUse,
    JobNotDeletable,
    JobNotFound,
    JobNotStoppable,
    WarmPoolAvailable,
)
from sagelet_engine.data.removal import DirectoryStays
from sagelet_engine.engine import Engine
from sagelet_engine.facets import JobsOf
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import J, JobKey, JobStatus, PoolStatus
from sagelet_engine.model.listing import Cursor, JobQuery, ListedJob, SortBy

#: True if SageMaker may assume a role. Takes the account and the role's ARN.
RoleCheck = Callable[[str, str], bool]


def any_role(_account: str, _role: str) -> bool:
    """Allows any role, without IAM."""
    return True


class JobOperations(ABC, Generic[J]):
    """The operations on the jobs of one kind: AWS's names follow from its noun. Each handler takes the call and its
    validated request, and returns the members of the answer.

    A kind has rules (`check_rules`, `image_problem`) and views (`described`, `summary`) of its own.
    """

    #: As in AWS's names: Create{noun}, {noun}Name, {noun}Summaries.
    noun: ClassVar[str]

    def __init__(
        self,
        engine: Engine,
        jobs: JobsOf[J],
        has_repository: Callable[[str, str, str], bool],
        may_assume: RoleCheck,
    ) -> None:
        """`jobs`: those of all accounts and regions. `has_repository`: asks ECR, by account, region and name."""
        self._engine = engine
        self._jobs = jobs
        self._images = Images(engine.inputs.knows_image, has_repository)
        self._may_assume = may_assume

    @abstractmethod
    def check_rules(self, key: JobKey, request: Request) -> None:
        """Refuses a body that passed the service model but cannot become a job, whatever its image. Raises AwsError."""

    @abstractmethod
    def image_problem(self, request: Request) -> str | None:
        """Returns why the request's image cannot be used."""

    @abstractmethod
    def described(self, job: J) -> Output:
        """Returns the answer of Describe."""

    @abstractmethod
    def summary(self, job: ListedJob) -> Output:
        """Returns an entry of List."""

    def key(self, context: Context, request: Request) -> JobKey:
        return self._key(context, request[f"{self.noun}Name"])

    def _key(self, context: Context, name: str) -> JobKey:
        return JobKey(context.account, context.region, name, self._jobs.kind)

    def get(self, key: JobKey) -> J:
        """Raises ValidationException, as AWS does for a missing job."""
        with existing():
            return self._jobs.get(key)

    def check(self, key: JobKey, request: Request) -> None:
        """Refuses a body that passed the service model but cannot become a job. Raises AwsError."""
        self.check_rules(key, request)
        if problem := self.image_problem(request):
            raise ValidationException(problem)
        if not self._may_assume(key.account, request["RoleArn"]):
            raise ValidationException(aws_texts.role_not_assumable(request["RoleArn"]))

    def create(self, context: Context, request: Request) -> Output:
        key = self.key(context, request)
        self.check(key, request)
        body = {name: value for name, value in request.items() if name != "Tags"}
        tags = tags_of(request)
        training_rules.check_tags(tags, spot=bool(request.get("EnableManagedSpotTraining")))
        try:
            job = self._jobs.create(key, body, tags)
        except JobNameInUse as error:
            raise ResourceInUse(aws_texts.name_taken(error.arn, key.kind.noun)) from error
        return {f"{self.noun}Arn": job.key.arn}

    def describe(self, context: Context, request: Request) -> Output:
        job = self.get(self.key(context, request))
        if self._jobs.throttles(job):
            raise ThrottlingException(RATE_EXCEEDED)
        return self.described(job)

    def list(self, context: Context, request: Request) -> Output:
        return self._listed(context, request, job_query(context, request))

    def _listed(
        self, context: Context, request: Request, query: JobQuery, shown: Callable[[ListedJob], bool] = bool
    ) -> Output:
        """`shown`: leaves out entries of the page."""
        page = self._jobs.listing(query)
        answer: Output = {f"{self.noun}Summaries": [self.summary(job) for job in page.jobs if shown(job)]}
        if page.next is not None:
            answer["NextToken"] = next_token(context, request, page.next)
        return answer

    def stop(self, context: Context, request: Request) -> None:
        """Raises ValidationException."""
        try:
            with existing():
                self._jobs.stop(self.key(context, request))
        except JobNotStoppable as error:
            raise ValidationException(aws_texts.has_ended(error.status, self._jobs.kind.noun)) from error

    def delete(self, context: Context, request: Request) -> None:
        """Raises ValidationException, ResourceInUse, InternalFailure."""
        noun = self._jobs.kind.noun
        try:
            with existing():
                self._jobs.delete(self.key(context, request))
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

    def operations(self) -> Operations:
        """Returns the handler of each operation, by name."""
        handlers = (
            ("Create", self.create), ("Describe", self.describe), ("Stop", self.stop), ("Delete", self.delete),
        )  # fmt: skip
        return {**{f"{verb}{self.noun}": handler for verb, handler in handlers}, f"List{self.noun}s": self.list}

    def taggable(self) -> Mapping[str, Taggable]:
        """Returns what the operations on tags need."""
        return {self._jobs.kind.value: Taggable(self._tags, self._put_tags, self._delete_tags)}

    def _tags(self, context: Context, name: str) -> Tags:
        return self.get(self._key(context, name)).tags

    def _put_tags(self, context: Context, name: str, tags: Tags) -> None:
        key = self._key(context, name)
        training_rules.check_tags(tags, spot=self.get(key).spec.spot)
        with existing():
            self._jobs.put_tags(key, tags, MAX_TAGS)

    def _delete_tags(self, context: Context, name: str, keys: Sequence[str]) -> None:
        with existing():
            self._jobs.delete_tags(self._key(context, name), keys)


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
