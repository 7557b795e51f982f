"""The processing-job operations of SageMaker. The model validates them, the engine does them, and a dict is the
answer.
"""

from collections.abc import Callable, Mapping

from sagelet_api.protocol.aws_errors import RATE_EXCEEDED, ResourceInUse, ThrottlingException, ValidationException
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations
from sagelet_api.services.sagemaker import processing_rules, processing_view, training_rules
from sagelet_api.services.sagemaker.job_operations import JobOperations, RoleCheck, any_role, job_query, next_token
from sagelet_api.services.sagemaker.tags import Taggable, tags_of
from sagelet_api.services.sagemaker.training_rules import Images
from sagelet_engine.base.errors import JobNameInUse
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.principal import of_role


class ProcessingJobs:
    """Handlers. Each takes the call and its validated request, and returns the members of the answer."""

    def __init__(
        self, engine: Engine, has_repository: Callable[[str, str, str], bool], may_assume: RoleCheck = any_role
    ) -> None:
        """`has_repository`: asks ECR, by account, region and name."""
        self._engine = engine
        self._common = JobOperations(engine.processing)
        self._images = Images(engine.inputs.knows_image, has_repository)
        self._may_assume = may_assume

    def create_processing_job(self, context: Context, request: Request) -> Output:
        key = self._common.key(context, request["ProcessingJobName"])
        self.check(key, request)
        body = {name: value for name, value in request.items() if name != "Tags"}
        tags = tags_of(request)
        training_rules.check_tags(tags, spot=False)
        try:
            job = self._engine.processing.create(key, body, tags)
        except JobNameInUse as error:
            raise ResourceInUse(aws_texts.name_taken(error.arn, key.kind.noun)) from error
        return {"ProcessingJobArn": job.key.arn}

    def check(self, key: JobKey, request: Request) -> None:
        """Refuses a body that passed the service model but cannot become a job. Raises AwsError."""
        processing_rules.check(request)
        who = of_role(key.account, request["RoleArn"])
        cluster, inputs = request["ProcessingResources"]["ClusterConfig"], self._engine.inputs
        training_rules.limit_hosts(
            cluster["InstanceType"], cluster.get("InstanceCount", 1), inputs.host_limit, key.kind
        )
        training_rules.check_places(processing_rules.places(request), lambda uri: inputs.has_bucket(who, uri))
        if problem := processing_rules.image_problem(request, self._images):
            raise ValidationException(problem)
        if not self._may_assume(key.account, request["RoleArn"]):
            raise ValidationException(aws_texts.role_not_assumable(request["RoleArn"]))

    def describe_processing_job(self, context: Context, request: Request) -> Output:
        job = self._common.get(self._common.key(context, request["ProcessingJobName"]))
        if self._engine.processing.throttles(job):
            raise ThrottlingException(RATE_EXCEEDED)
        return processing_view.describe(job)

    def list_processing_jobs(self, context: Context, request: Request) -> Output:
        page = self._engine.processing.listing(job_query(context, request))
        answer: Output = {"ProcessingJobSummaries": [processing_view.summary(job) for job in page.jobs]}
        if page.next is not None:
            answer["NextToken"] = next_token(context, request, page.next)
        return answer

    def stop_processing_job(self, context: Context, request: Request) -> None:
        self._common.stop(self._common.key(context, request["ProcessingJobName"]))

    def delete_processing_job(self, context: Context, request: Request) -> None:
        self._common.delete(self._common.key(context, request["ProcessingJobName"]))

    def taggable(self) -> Mapping[str, Taggable]:
        """Returns what the operations on tags need."""
        return self._common.taggable()

    def operations(self) -> Operations:
        """Returns the operations for the application."""
        return {
            "CreateProcessingJob": self.create_processing_job,
            "DescribeProcessingJob": self.describe_processing_job,
            "ListProcessingJobs": self.list_processing_jobs,
            "StopProcessingJob": self.stop_processing_job,
            "DeleteProcessingJob": self.delete_processing_job,
        }
