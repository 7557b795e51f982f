"""The training-job operations of SageMaker. The model validates them, the engine does them, and a dict is the
answer.
"""

from collections.abc import Callable

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import (
    RATE_EXCEEDED,
    InternalFailure,
    ResourceInUse,
    ResourceLimitExceeded,
    ThrottlingException,
    ValidationException,
)
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations, SharedOperation, owned_arn
from sagelet_api.services.sagemaker import (
    training_rules,
    training_search,
    training_updates,
    training_view,
)
from sagelet_api.services.sagemaker.search_suggestions import SearchSuggestions
from sagelet_api.services.sagemaker.training_rules import Images
from sagelet_api.services.sagemaker.training_search import TrainingSearch
from sagelet_engine.base.errors import (
    JobNameInUse,
    JobNotDeletable,
    JobNotFound,
    JobNotStoppable,
    TooManyTags,
    WarmPoolAvailable,
)
from sagelet_engine.data.removal import DirectoryStays
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobKey, JobStatus, PoolStatus
from sagelet_engine.model.listing import Cursor, JobQuery, SortBy
from sagelet_engine.model.training import TrainingJob

#: AWS's documented limit (botocore shape TagList).
MAX_TAGS = 50


#: True if SageMaker may assume a role. Takes the account and the role's ARN.
RoleCheck = Callable[[str, str], bool]


def any_role(_account: str, _role: str) -> bool:
    """Allows any role, without IAM."""
    return True


class TrainingJobs:
    """Handlers. Each takes the call and its validated request, and returns the members of the answer."""

    def __init__(
        self, engine: Engine, has_repository: Callable[[str, str, str], bool], may_assume: RoleCheck = any_role
    ) -> None:
        """`has_repository`: asks ECR, by account, region and name."""
        self._engine = engine
        self._images = Images(engine.inputs.knows_image, has_repository)
        self._may_assume = may_assume

    def create_training_job(self, context: Context, request: Request) -> Output:
        key = JobKey(context.account, context.region, request["TrainingJobName"])
        self.check(key, request)
        body = {name: value for name, value in request.items() if name != "Tags"}
        tags = {tag["Key"]: tag["Value"] for tag in request.get("Tags", [])}
        training_rules.check_tags(tags, spot=bool(request.get("EnableManagedSpotTraining")))
        try:
            job = self._engine.jobs.create(key, body, tags)
        except JobNameInUse as error:
            raise ResourceInUse(aws_texts.name_taken(error.arn)) from error
        return {"TrainingJobArn": job.key.arn}

    def check(self, key: JobKey, request: Request) -> None:
        """Refuses a body that passed the service model but cannot become a job. Raises AwsError."""
        training_rules.check(request, self._site(key))
        training_rules.check_buckets(request, lambda uri: self._engine.inputs.has_bucket(key, uri))
        if problem := training_rules.image_problem(request, self._images):
            raise ValidationException(problem)
        if not self._may_assume(key.account, request["RoleArn"]):
            raise ValidationException(aws_texts.role_not_assumable(request["RoleArn"]))

    def _site(self, key: JobKey) -> training_rules.Site:
        engine = self._engine
        return training_rules.Site(
            key.region,
            engine.inputs.host_limit,
            lambda uri: engine.inputs.has_objects(key, uri),
            engine.inputs.check_file_system,
        )

    def describe_training_job(self, context: Context, request: Request) -> Output:
        job = self._job(JobKey(context.account, context.region, request["TrainingJobName"]))
        if self._engine.jobs.throttles(job):
            raise ThrottlingException(RATE_EXCEEDED)
        return training_view.describe(job, self._engine.metrics.final(job))

    def list_training_jobs(self, context: Context, request: Request) -> Output:
        page = self._engine.jobs.listing(job_query(context, request))
        answer: Output = {"TrainingJobSummaries": [training_view.summary(job) for job in page.jobs]}
        if page.next is not None:
            answer["NextToken"] = next_token(request, page.next)
        return answer

    def stop_training_job(self, context: Context, request: Request) -> None:
        try:
            self._engine.jobs.stop(JobKey(context.account, context.region, request["TrainingJobName"]))
        except JobNotFound as error:
            raise _not_found() from error
        except JobNotStoppable as error:
            raise ValidationException(aws_texts.has_ended(error.status)) from error

    def update_training_job(self, context: Context, request: Request) -> Output:
        key = JobKey(context.account, context.region, request["TrainingJobName"])
        try:
            job = self._engine.jobs.update(key, lambda job: training_updates.changes(job, request))
        except JobNotFound as error:
            raise _not_found() from error
        return {"TrainingJobArn": job.key.arn}

    def delete_training_job(self, context: Context, request: Request) -> None:
        try:
            self._engine.jobs.delete(JobKey(context.account, context.region, request["TrainingJobName"]))
        except JobNotFound as error:
            raise _not_found() from error
        except JobNotDeletable as error:
            # The error's shape is the model's.
            raise ResourceInUse(
                f"The request was rejected because the training job is in status {error.status}; "
                "only a training job that has ended can be deleted. Stop it first."
            ) from error
        except WarmPoolAvailable as error:
            # As above, the text is sagelet's.
            raise ResourceInUse(str(error)) from error
        except DirectoryStays as error:
            raise InternalFailure(str(error)) from error

    def list_tags(self, context: Context, request: Request) -> Output:
        return {"Tags": _tags(self._job(_key(context, request)))}

    def add_tags(self, context: Context, request: Request) -> Output:
        key = _key(context, request)
        tags = {tag["Key"]: tag["Value"] for tag in request["Tags"]}
        job = self._job(key)
        for problem in training_rules.tag_problems(tag["Key"] for tag in request["Tags"]):
            raise ValidationException(problem)
        training_rules.check_tags(tags, spot=job.spec.spot)
        try:
            self._engine.jobs.put_tags(key, tags, MAX_TAGS)
        except TooManyTags as error:
            raise ResourceLimitExceeded(str(error)) from error
        return {"Tags": _tags(self._job(key))}

    def delete_tags(self, context: Context, request: Request) -> Output:
        key = _key(context, request)
        self._job(key)
        self._engine.jobs.delete_tags(key, request["TagKeys"])
        return {}

    def operations(self) -> Operations:
        """Returns the operations for the application. Tags of other resources are moto's."""
        tagged = owned_arn("ResourceArn", "training-job/")
        return {
            "CreateTrainingJob": self.create_training_job,
            "DescribeTrainingJob": self.describe_training_job,
            "ListTrainingJobs": self.list_training_jobs,
            "StopTrainingJob": self.stop_training_job,
            "UpdateTrainingJob": self.update_training_job,
            "DeleteTrainingJob": self.delete_training_job,
            "Search": SharedOperation(TrainingSearch(self._engine).search, training_search.is_ours),
            "GetSearchSuggestions": SharedOperation(
                SearchSuggestions(self._engine).get_search_suggestions, training_search.is_ours
            ),
            "ListTags": SharedOperation(self.list_tags, tagged),
            "AddTags": SharedOperation(self.add_tags, tagged),
            "DeleteTags": SharedOperation(self.delete_tags, tagged),
        }

    def _job(self, key: JobKey) -> TrainingJob:
        try:
            return self._engine.jobs.get(key)
        except JobNotFound as error:
            raise _not_found() from error


def _not_found() -> ValidationException:
    """Returns AWS's error for a missing job, a ValidationException. Terraform and botocore's waiter rely on it."""
    return ValidationException(aws_texts.NOT_FOUND)


def _key(context: Context, request: Request) -> JobKey:
    arn = request["ResourceArn"].split(":", 5)
    name = arn[-1].partition("/")[2]
    if arn[3:5] != [context.region, context.account]:
        raise _not_found()
    return JobKey(context.account, context.region, name)


def _tags(job: TrainingJob) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in job.tags.items()]


def job_query(context: Context, request: Request) -> JobQuery:
    status = request.get("StatusEquals")
    sort_by = SortBy(request.get("SortBy", "CreationTime"))
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
        ascending=request.get("SortOrder", "Ascending") == "Ascending",
        limit=request.get("MaxResults", 10),
        after=_cursor(request, sort_by),
    )


def next_token(request: Request, cursor: Cursor) -> str:
    """Returns the NextToken of a list. It continues this request only."""
    return page_tokens.encode(page_tokens.fingerprint(request), cursor.value, cursor.job_id)


def _ms(time: float | None) -> int | None:
    return None if time is None else round(time * 1000)


def _cursor(request: Request, sort_by: SortBy) -> Cursor | None:
    if "NextToken" not in request:
        return None
    values = page_tokens.decode(request["NextToken"], str, int if sort_by is SortBy.CREATION_TIME else str, str)
    if values is None or values[0] != page_tokens.fingerprint(request):
        raise ValidationException(aws_texts.BAD_TOKEN)
    return Cursor(*values[1:])
