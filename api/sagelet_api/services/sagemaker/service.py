"""The training-job operations of SageMaker. The model validates them, the engine does them, and a dict is the
answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from sagelet_api.protocol.aws_errors import RATE_EXCEEDED, ResourceInUse, ThrottlingException, ValidationException
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations, SharedOperation
from sagelet_api.services.sagemaker import search, training_rules, training_updates, training_view
from sagelet_api.services.sagemaker.job_operations import (
    JobOperations,
    RoleCheck,
    any_role,
    existing,
    job_query,
    next_token,
)
from sagelet_api.services.sagemaker.search_suggestions import SearchSuggestions
from sagelet_api.services.sagemaker.tags import Taggable, tags_of
from sagelet_api.services.sagemaker.training_rules import Images
from sagelet_engine.base.errors import JobNameInUse
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.principal import Principal, of_role


class TrainingJobs:
    """Handlers. Each takes the call and its validated request, and returns the members of the answer."""

    def __init__(
        self, engine: Engine, has_repository: Callable[[str, str, str], bool], may_assume: RoleCheck = any_role
    ) -> None:
        """`has_repository`: asks ECR, by account, region and name."""
        self._engine = engine
        self._common = JobOperations(engine.jobs)
        self._images = Images(engine.inputs.knows_image, has_repository)
        self._may_assume = may_assume

    def create_training_job(self, context: Context, request: Request) -> Output:
        key = self._common.key(context, request["TrainingJobName"])
        self.check(key, request)
        body = {name: value for name, value in request.items() if name != "Tags"}
        tags = tags_of(request)
        training_rules.check_tags(tags, spot=bool(request.get("EnableManagedSpotTraining")))
        try:
            job = self._engine.jobs.create(key, body, tags)
        except JobNameInUse as error:
            raise ResourceInUse(aws_texts.name_taken(error.arn)) from error
        return {"TrainingJobArn": job.key.arn}

    def check(self, key: JobKey, request: Request) -> None:
        """Refuses a body that passed the service model but cannot become a job. Raises AwsError."""
        who = of_role(key.account, request["RoleArn"])
        training_rules.check(request, self._site(key, who))
        training_rules.check_buckets(request, lambda uri: self._engine.inputs.has_bucket(who, uri))
        if problem := training_rules.image_problem(request, self._images):
            raise ValidationException(problem)
        if not self._may_assume(key.account, request["RoleArn"]):
            raise ValidationException(aws_texts.role_not_assumable(request["RoleArn"]))

    def _site(self, key: JobKey, who: Principal) -> training_rules.Site:
        engine = self._engine
        return training_rules.Site(
            key.region,
            engine.inputs.host_limit,
            lambda uri: engine.inputs.has_objects(who, uri),
            engine.inputs.check_file_system,
        )

    def describe_training_job(self, context: Context, request: Request) -> Output:
        job = self._common.get(self._common.key(context, request["TrainingJobName"]))
        if self._engine.jobs.throttles(job):
            raise ThrottlingException(RATE_EXCEEDED)
        return training_view.describe(job, self._engine.metrics.final(job))

    def list_training_jobs(self, context: Context, request: Request) -> Output:
        """Lists training jobs. With MaxResults and StatusEquals, a page is cut first and then filtered (the Note on
        AWS's page), so it may be empty and have a NextToken.
        """
        query = job_query(context, request)
        cut_first = "MaxResults" in request and "StatusEquals" in request
        page = self._engine.jobs.listing(replace(query, status=None) if cut_first else query)
        jobs = [job for job in page.jobs if not cut_first or job.status is query.status]
        answer: Output = {"TrainingJobSummaries": [training_view.summary(job) for job in jobs]}
        if page.next is not None:
            answer["NextToken"] = next_token(context, request, page.next)
        return answer

    def stop_training_job(self, context: Context, request: Request) -> None:
        self._common.stop(self._common.key(context, request["TrainingJobName"]))

    def update_training_job(self, context: Context, request: Request) -> Output:
        key = self._common.key(context, request["TrainingJobName"])
        with existing():
            job = self._engine.jobs.update(key, lambda job: training_updates.changes(job, request))
        return {"TrainingJobArn": job.key.arn}

    def delete_training_job(self, context: Context, request: Request) -> None:
        self._common.delete(self._common.key(context, request["TrainingJobName"]))

    def taggable(self) -> Mapping[str, Taggable]:
        """Returns what the operations on tags need."""
        return self._common.taggable()

    def operations(self) -> Operations:
        """Returns the handler of each operation, by name."""
        return {
            "CreateTrainingJob": self.create_training_job,
            "DescribeTrainingJob": self.describe_training_job,
            "ListTrainingJobs": self.list_training_jobs,
            "StopTrainingJob": self.stop_training_job,
            "UpdateTrainingJob": self.update_training_job,
            "DeleteTrainingJob": self.delete_training_job,
            "Search": SharedOperation(search.Search(self._engine).search, search.is_ours),
            "GetSearchSuggestions": SharedOperation(
                SearchSuggestions(self._engine).get_search_suggestions, search.is_ours
            ),
        }
