"""A tuning job's record as its Describe and List calls show it, and a trial as a HyperParameterTrainingJobSummary."""

from sagelet_api.protocol.members import Output
from sagelet_api.services.sagemaker.training_view import seconds
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import Trial, TuningJob, child_key
from sagelet_engine.tuning.children import resources, static_parameters

#: Members of the request that Describe shows as they came.
_ECHOED = ("HyperParameterTuningJobName", "HyperParameterTuningJobConfig", "WarmStartConfig", "Autotune")


def describe(job: TuningJob, now_ms: int) -> Output:
    """Returns the answer of DescribeHyperParameterTuningJob."""
    answer: Output = {
        **{name: job.request[name] for name in _ECHOED if name in job.request},
        **_definitions(job),
        "HyperParameterTuningJobArn": job.key.arn,
        **_common(job),
        # The wall clock of the tuning job, not the sum of its training jobs (botocore shape
        # HyperParameterTuningJobConsumedResources).
        "ConsumedResources": {"RuntimeInSeconds": ((job.ended_ms or now_ms) - job.created_ms) // 1000},
        "TuningJobCompletionDetails": {"NumberOfTrainingJobsObjectiveNotImproving": job.not_improving},
    }
    if job.best is not None:
        answer["BestTrainingJob"] = trial_summary(job, job.best, None)
    if job.overall_best is not None:
        trial, tuning_job = job.overall_best
        answer["OverallBestTrainingJob"] = {**trial_summary(job, trial, None), "TuningJobName": tuning_job}
    if job.failure_reason is not None:
        answer["FailureReason"] = job.failure_reason
    if job.converged_ms is not None:
        answer["TuningJobCompletionDetails"]["ConvergenceDetectedTime"] = seconds(job.converged_ms)
    return answer


def summary(job: TuningJob) -> Output:
    """Returns one HyperParameterTuningJobSummary."""
    config = job.request["HyperParameterTuningJobConfig"]
    return {
        "HyperParameterTuningJobName": job.key.name,
        "HyperParameterTuningJobArn": job.key.arn,
        "Strategy": config["Strategy"],
        "ResourceLimits": config["ResourceLimits"],
        **_common(job),
    }


def trial_summary(job: TuningJob, trial: Trial, running: TrainingJob | None) -> Output:
    """Returns a HyperParameterTrainingJobSummary. `running`: the training job of a trial that has not ended."""
    created_ms, start_ms = trial.created_ms, trial.start_ms
    status = trial.status.value if trial.status is not None else "InProgress"
    if running is not None:
        created_ms, start_ms, status = running.created_ms, running.training_start_ms, running.status.value
    key = child_key(job, trial)
    answer: Output = {
        "TrainingJobName": key.name,
        "TrainingJobArn": key.arn,
        "TuningJobName": job.key.name,
        # A trial that is decided and not created yet has the time of the decision.
        "CreationTime": seconds(job.modified_ms if created_ms is None else created_ms),
        "TrainingJobStatus": status,
        "TunedHyperParameters": dict(trial.values),
        "ObjectiveStatus": "Pending" if not trial.ended else "Succeeded" if trial.succeeded else "Failed",
    }
    if trial.definition:
        answer["TrainingJobDefinitionName"] = trial.definition
    for name, time_ms in (("TrainingStartTime", start_ms), ("TrainingEndTime", trial.end_ms)):
        if time_ms is not None:
            answer[name] = seconds(time_ms)
    if trial.failure_reason is not None:
        answer["FailureReason"] = trial.failure_reason
    if trial.succeeded:
        objective = job.spec.definition(trial.definition).objective
        answer["FinalHyperParameterTuningJobObjectiveMetric"] = {
            "MetricName": objective.metric,
            "Value": trial.objective,
        }
    return answer


def _common(job: TuningJob) -> Output:
    counters = job.counters
    answer: Output = {
        "HyperParameterTuningJobStatus": job.status.value,
        "CreationTime": seconds(job.created_ms),
        "LastModifiedTime": seconds(job.modified_ms),
        "TrainingJobStatusCounters": {
            "Completed": counters.completed,
            "InProgress": counters.in_progress,
            "RetryableError": counters.retryable,
            "NonRetryableError": counters.non_retryable,
            "Stopped": counters.stopped,
        },
        "ObjectiveStatusCounters": {
            "Succeeded": counters.succeeded,
            "Pending": counters.pending,
            "Failed": counters.failed,
        },
    }
    if job.ended_ms is not None:
        answer["HyperParameterTuningEndTime"] = seconds(job.ended_ms)
    return answer


def _definitions(job: TuningJob) -> Output:
    """Returns the definitions as AWS describes them.

    The name of the objective metric is among the static values. ResourceConfig is there although the SDK v2 sends
    HyperParameterTuningResourceConfig: its `HyperparameterTuner.attach` reads the former.
    """
    shown = [
        {
            **one.request,
            "StaticHyperParameters": static_parameters(one),
            "ResourceConfig": resources(one.request),
        }
        for one in job.spec.definitions
    ]
    if "TrainingJobDefinitions" in job.request:
        return {"TrainingJobDefinitions": shown}
    return {"TrainingJobDefinition": shown[0]}
