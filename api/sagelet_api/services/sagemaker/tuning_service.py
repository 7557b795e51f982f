"""The operations of hyperparameter tuning jobs. The engine's orchestrator runs the jobs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import (
    ResourceInUse,
    ResourceNotFound,
    ValidationException,
)
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations
from sagelet_api.services.sagemaker import training_rules, tuning_rules, tuning_view
from sagelet_api.services.sagemaker.job_operations import job_query, next_token
from sagelet_api.services.sagemaker.tags import MAX_TAGS, Taggable, Tags, tags_of
from sagelet_api.services.sagemaker.warm_start_rules import warm_start
from sagelet_engine.base.errors import (
    OrchestrationEnded,
    OrchestrationNameInUse,
    OrchestrationNotDeletable,
    OrchestrationNotFound,
)
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.listing import SortBy
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import Trial, TuningJob

#: Refuses a CreateTrainingJob body.
CheckJob = Callable[[JobKey, Request], None]


class TuningJobs:
    """Handlers. Each takes the call and its validated request, and returns the members of the answer."""

    def __init__(self, engine: Engine, check_job: CheckJob) -> None:
        self._engine = engine
        self._check_job = check_job

    def create(self, context: Context, request: Request) -> Output:
        key = _key(context, request["HyperParameterTuningJobName"])
        child = JobKey(key.account, key.region, key.name)
        tags = tags_of(request)
        request = tuning_rules.settled(request)
        tuning_rules.check(request, lambda body: self._check_job(child, body))
        _check_tags(tags, request)
        warm = warm_start(request, lambda name: self._engine.tuning.parent(_key(context, name)))
        body = {name: value for name, value in request.items() if name != "Tags"}
        try:
            job = self._engine.tuning.create(key, body, tags, warm)
        except OrchestrationNameInUse as error:
            raise ResourceInUse(aws_texts.tuning_name_taken(error.arn)) from error
        return {"HyperParameterTuningJobArn": job.key.arn}

    def describe(self, context: Context, request: Request) -> Output:
        job = self._job(_key(context, request["HyperParameterTuningJobName"]))
        return tuning_view.describe(job, self._engine.now_ms())

    def list(self, context: Context, request: Request) -> Output:
        """Lists tuning jobs. The defaults are those of the model's documentation: by name, ascending."""
        page = self._engine.tuning.page(job_query(context, request, SortBy.NAME))
        answer: Output = {"HyperParameterTuningJobSummaries": [tuning_view.summary(job) for job in page.jobs]}
        if page.next is not None:
            answer["NextToken"] = next_token(context, request, page.next)
        return answer

    def stop(self, context: Context, request: Request) -> None:
        name = request["HyperParameterTuningJobName"]
        try:
            with _existing(name):
                self._engine.tuning.stop(_key(context, name))
        except OrchestrationEnded as error:
            # The code is what SDK v2 takes for a job that has ended; the text is sagelet's.
            raise ValidationException(
                f"The request was rejected because the hyperparameter tuning job is in status {error.status}."
            ) from error

    def delete(self, context: Context, request: Request) -> None:
        name = request["HyperParameterTuningJobName"]
        try:
            with _existing(name):
                self._engine.tuning.delete(_key(context, name))
        except OrchestrationNotDeletable as error:
            # Terraform's provider stops the job when it reads "not in a terminal state". The other words are sagelet's.
            raise ValidationException(
                f"The hyperparameter tuning job {name} is not in a terminal state: its status is {error.status}. "
                "Stop it first."
            ) from error

    def list_training_jobs(self, context: Context, request: Request) -> Output:
        """Filters, sorts and cuts the trials. The defaults are AWS's: by name, ascending."""
        job = self._job(_key(context, request["HyperParameterTuningJobName"]))
        shown = [
            (trial, tuning_view.trial_summary(job, trial, running))
            for trial, running in self._engine.tuning.trials(job)
            if _exists(trial, running)
        ]
        wanted = request.get("StatusEquals")
        rows = [
            (*place, summary)
            for trial, summary in shown
            if wanted in (None, summary["TrainingJobStatus"]) and (place := _place(request, trial, summary)) is not None
        ]
        descending = request.get("SortOrder", "Ascending") == "Descending"
        rows.sort(key=lambda row: row[:2], reverse=descending)
        if "NextToken" in request:
            last = _last(context, request)
            rows = [row for row in rows if (row[:2] < last if descending else row[:2] > last)]
        limit = request.get("MaxResults", 10)
        answer: Output = {"TrainingJobSummaries": [row[2] for row in rows[:limit]]}
        if len(rows) > limit:
            answer["NextToken"] = page_tokens.encode(page_tokens.fingerprint(context, request), *rows[limit - 1][:2])
        return answer

    def taggable(self) -> Mapping[str, Taggable]:
        """Returns what the operations on tags need."""
        return {OrchestrationKind.TUNING.value: Taggable(self._tags, self._put_tags, self._delete_tags)}

    def _tags(self, context: Context, name: str) -> Tags:
        return self._job(_key(context, name)).tags

    def _put_tags(self, context: Context, name: str, tags: Tags) -> None:
        key = _key(context, name)
        _check_tags(tags, self._job(key).request)
        with _existing(name):
            self._engine.tuning.put_tags(key, tags, MAX_TAGS)

    def _delete_tags(self, context: Context, name: str, keys: Sequence[str]) -> None:
        with _existing(name):
            self._engine.tuning.delete_tags(_key(context, name), keys)

    def operations(self) -> Operations:
        """Returns the operations for the application."""
        return {
            "CreateHyperParameterTuningJob": self.create,
            "DescribeHyperParameterTuningJob": self.describe,
            "ListHyperParameterTuningJobs": self.list,
            "StopHyperParameterTuningJob": self.stop,
            "DeleteHyperParameterTuningJob": self.delete,
            "ListTrainingJobsForHyperParameterTuningJob": self.list_training_jobs,
        }

    def _job(self, key: OrchestrationKey) -> TuningJob:
        with _existing(key.name):
            return self._engine.tuning.get(key)


@contextmanager
def _existing(name: str) -> Iterator[None]:
    """Answers for a tuning job that does not exist, or that was deleted meanwhile."""
    try:
        yield
    except OrchestrationNotFound as error:
        raise ResourceNotFound(aws_texts.no_tuning_job(name)) from error


def _key(context: Context, name: str) -> OrchestrationKey:
    return OrchestrationKey(context.account, context.region, name, OrchestrationKind.TUNING)


def _check_tags(tags: Tags, request: Request) -> None:
    """Raises ValidationException. The training jobs get these tags, so they must be able to have them."""
    definitions = request.get("TrainingJobDefinitions") or [request["TrainingJobDefinition"]]
    training_rules.check_tags(tags, spot=all(one.get("EnableManagedSpotTraining", False) for one in definitions))


def _exists(trial: Trial, running: TrainingJob | None) -> bool:
    """False for a trial that is decided, and whose training job is not created yet."""
    return trial.ended or running is not None


def _place(request: Request, trial: Trial, summary: Output) -> tuple[Any, int] | None:
    """Returns a trial's place in the requested order. None if it is not listed: AWS leaves out jobs without an
    objective in an order by it.
    """
    sort_by = request.get("SortBy", "Name")
    if sort_by == "FinalObjectiveMetricValue":
        return (float(trial.objective), trial.ordinal) if trial.succeeded and trial.objective is not None else None
    member = {"Name": "TrainingJobName", "CreationTime": "CreationTime", "Status": "TrainingJobStatus"}[sort_by]
    return summary[member], trial.ordinal


def _last(context: Context, request: Request) -> tuple[Any, int]:
    """Returns the place of the last trial of the page before. Raises ValidationException."""
    numeric = request.get("SortBy", "Name") in ("FinalObjectiveMetricValue", "CreationTime")
    values = page_tokens.decode(request["NextToken"], str, (int, float) if numeric else str, int)
    if values is None or values[0] != page_tokens.fingerprint(context, request):
        raise ValidationException(aws_texts.BAD_TOKEN)
    return values[1], values[2]
