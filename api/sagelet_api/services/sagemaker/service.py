"""The training-job operations of SageMaker. The model validates them, the engine does them, and a dict is the
answer.
"""

from collections.abc import Callable
from dataclasses import replace

from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations, SharedOperation
from sagelet_api.services.sagemaker import search, training_rules, training_updates, training_view
from sagelet_api.services.sagemaker.job_operations import JobOperations, RoleCheck, existing, job_query
from sagelet_api.services.sagemaker.search_suggestions import SearchSuggestions
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.listing import ListedJob
from sagelet_engine.model.principal import of_role
from sagelet_engine.model.training import TrainingJob


class TrainingJobs(JobOperations[TrainingJob]):
    noun = "TrainingJob"

    def __init__(self, engine: Engine, has_repository: Callable[[str, str, str], bool], may_assume: RoleCheck) -> None:
        super().__init__(engine, engine.jobs, has_repository, may_assume)

    def check_rules(self, key: JobKey, request: Request) -> None:
        who, inputs = of_role(key.account, request["RoleArn"]), self._engine.inputs
        site = training_rules.Site(
            key.region, inputs.host_limit, lambda uri: inputs.has_objects(who, uri), inputs.check_file_system
        )
        training_rules.check(request, site)
        training_rules.check_buckets(request, lambda uri: inputs.has_bucket(who, uri))

    def image_problem(self, request: Request) -> str | None:
        return training_rules.image_problem(request, self._images)

    def described(self, job: TrainingJob) -> Output:
        return training_view.describe(job, self._engine.metrics.final(job))

    def summary(self, job: ListedJob) -> Output:
        return training_view.summary(job)

    def list(self, context: Context, request: Request) -> Output:
        """Lists training jobs. With MaxResults and StatusEquals, a page is cut first and then filtered (the Note on
        AWS's page), so it may be empty and have a NextToken.
        """
        query = job_query(context, request)
        if not {"MaxResults", "StatusEquals"} <= request.keys():
            return self._listed(context, request, query)
        return self._listed(context, request, replace(query, status=None), lambda job: job.status is query.status)

    def update(self, context: Context, request: Request) -> Output:
        key = self.key(context, request)
        with existing():
            job = self._engine.jobs.update(key, lambda job: training_updates.changes(job, request))
        return {"TrainingJobArn": job.key.arn}

    def operations(self) -> Operations:
        return {
            **super().operations(),
            "UpdateTrainingJob": self.update,
            "Search": SharedOperation(search.Search(self._engine).search, search.is_ours),
            "GetSearchSuggestions": SharedOperation(
                SearchSuggestions(self._engine).get_search_suggestions, search.is_ours
            ),
        }
