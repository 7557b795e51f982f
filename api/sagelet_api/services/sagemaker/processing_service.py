"""The processing-job operations of SageMaker. The model validates them, the engine does them, and a dict is the
answer.
"""

from collections.abc import Callable

from sagelet_api.protocol.members import Output, Request
from sagelet_api.services.sagemaker import processing_rules, processing_view, training_rules
from sagelet_api.services.sagemaker.job_operations import JobOperations, RoleCheck
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.listing import ListedJob
from sagelet_engine.model.principal import of_role
from sagelet_engine.model.processing import ProcessingJob


class ProcessingJobs(JobOperations[ProcessingJob]):
    noun = "ProcessingJob"

    def __init__(self, engine: Engine, has_repository: Callable[[str, str, str], bool], may_assume: RoleCheck) -> None:
        super().__init__(engine, engine.processing, has_repository, may_assume)

    def check_rules(self, key: JobKey, request: Request) -> None:
        processing_rules.check(request)
        who = of_role(key.account, request["RoleArn"])
        cluster, inputs = request["ProcessingResources"]["ClusterConfig"], self._engine.inputs
        training_rules.limit_hosts(
            cluster["InstanceType"], cluster.get("InstanceCount", 1), inputs.host_limit, key.kind
        )
        training_rules.check_places(processing_rules.places(request), lambda uri: inputs.has_bucket(who, uri))

    def image_problem(self, request: Request) -> str | None:
        return processing_rules.image_problem(request, self._images)

    def described(self, job: ProcessingJob) -> Output:
        return processing_view.describe(job)

    def summary(self, job: ListedJob) -> Output:
        return processing_view.summary(job)
