"""A job record as DescribeProcessingJob and ListProcessingJobs show it (botocore shapes of those names)."""

from collections.abc import Mapping
from typing import Any

from sagelet_api.protocol.members import Output
from sagelet_api.services.sagemaker.training_view import seconds
from sagelet_engine.model.listing import ListedJob
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.spec import ONE_DAY


def describe(job: ProcessingJob) -> Output:
    """Returns the answer of DescribeProcessingJob: every accepted field as it came, and the job's state and results."""
    request = job.request
    answer: Output = {
        "StoppingCondition": {"MaxRuntimeInSeconds": ONE_DAY},
        **request,
        "ProcessingJobArn": job.key.arn,
        "ProcessingJobStatus": job.status.value,
        "CreationTime": seconds(job.created_ms),
        "LastModifiedTime": seconds(job.modified_ms),
    }
    if "ProcessingInputs" in request:
        answer["ProcessingInputs"] = [_entry(entry) for entry in request["ProcessingInputs"]]
    if "ProcessingOutputConfig" in request:
        config = request["ProcessingOutputConfig"]
        answer["ProcessingOutputConfig"] = {**config, "Outputs": [_entry(entry) for entry in config["Outputs"]]}
    times = {"ProcessingStartTime": job.training_start_ms, "ProcessingEndTime": job.training_end_ms}
    return {**answer, **_results(job), **{name: seconds(time) for name, time in times.items() if time is not None}}


def summary(job: ListedJob) -> Output:
    """Returns one ProcessingJobSummary of ListProcessingJobs."""
    answer: Output = {
        "ProcessingJobName": job.key.name,
        "ProcessingJobArn": job.key.arn,
        "CreationTime": seconds(job.created_ms),
        "LastModifiedTime": seconds(job.modified_ms),
        "ProcessingJobStatus": job.status.value,
    }
    if job.training_end_ms is not None:
        answer["ProcessingEndTime"] = seconds(job.training_end_ms)
    return {**answer, **_results(job)}


def _results(job: ProcessingJob | ListedJob) -> Output:
    texts = {"FailureReason": job.failure_reason, "ExitMessage": job.exit_message}
    return {name: text for name, text in texts.items() if text is not None}


def _entry(entry: Mapping[str, Any]) -> Output:
    """Returns an input or an output with AWS's default."""
    return {"AppManaged": False, **entry}
