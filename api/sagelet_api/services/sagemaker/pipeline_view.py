"""Pipelines, executions and steps as their Describe and List calls show them."""

from collections.abc import Mapping, Sequence

from sagelet_api.protocol.members import Output
from sagelet_api.services.sagemaker.training_view import seconds
from sagelet_engine.model.arns import arn
from sagelet_engine.model.pipeline import EXECUTION_STATUSES, Pipeline, PipelineExecution, StepRun
from sagelet_engine.pipelines.definition import Step, parse
from sagelet_engine.pipelines.experiments import experiment_of
from sagelet_engine.pipelines.expressions import text_of

#: botocore's shape PipelineExecutionStatus.
STATUSES = EXECUTION_STATUSES


def describe(pipeline: Pipeline, version: int, definition: str) -> Output:
    """Returns the answer of DescribePipeline for one version."""
    answer: Output = {
        **_common(pipeline),
        "PipelineDefinition": definition,
        "PipelineStatus": "Active",
        "CreatedBy": pipeline.created_by,
        "LastModifiedBy": pipeline.modified_by,
    }
    if pipeline.last_run_ms is not None:
        answer["LastRunTime"] = seconds(pipeline.last_run_ms)
    return {**answer, **_parallel(pipeline.parallel), **_version(pipeline, version)}


def summary(pipeline: Pipeline) -> Output:
    """Returns one PipelineSummary."""
    answer = _common(pipeline)
    if pipeline.last_run_ms is not None:
        answer["LastExecutionTime"] = seconds(pipeline.last_run_ms)
    return answer


def _common(pipeline: Pipeline) -> Output:
    answer: Output = {
        "PipelineArn": pipeline.key.arn,
        "PipelineName": pipeline.key.name,
        "PipelineDisplayName": pipeline.display_name or pipeline.key.name,
        "RoleArn": pipeline.role,
        "CreationTime": seconds(pipeline.created_ms),
        "LastModifiedTime": seconds(pipeline.modified_ms),
    }
    if pipeline.description is not None:
        answer["PipelineDescription"] = pipeline.description
    return answer


def version_summary(pipeline: Pipeline, version: int, created_ms: int, last: PipelineExecution | None) -> Output:
    """Returns one PipelineVersionSummary. `last`: the newest execution of the version."""
    answer = {"PipelineArn": pipeline.key.arn, "PipelineVersionId": version, "CreationTime": seconds(created_ms)}
    if last is not None:
        answer["LastExecutionPipelineExecutionArn"] = last.key.arn
    return {**answer, **_version(pipeline, version)}


def _version(pipeline: Pipeline, version: int) -> Output:
    aliases = pipeline.aliases_of(version)
    return {
        **pipeline.version_notes.get(str(version), {}),
        **({"PipelineVersionAliases": aliases} if aliases else {}),
    }


def _parallel(limit: int | None) -> Output:
    return {} if limit is None else {"ParallelismConfiguration": {"MaxParallelExecutionSteps": limit}}


def describe_execution(execution: PipelineExecution, aliases: Sequence[str]) -> Output:
    """Returns the answer of DescribePipelineExecution. `aliases`: those that its version has now."""
    request = execution.request
    answer: Output = {
        "PipelineArn": execution.pipeline_key.arn,
        **_execution(execution, aliases),
        "CreationTime": seconds(execution.created_ms),
        "LastModifiedTime": seconds(execution.modified_ms),
        "CreatedBy": execution.created_by,
        "LastModifiedBy": execution.modified_by,
        **_parallel(execution.parallel),
    }
    if execution.role:
        answer["RoleArn"] = execution.role
    if execution.failure_reason is not None:
        answer["FailureReason"] = execution.failure_reason
    if (names := experiment_of(execution)) is not None:
        answer["PipelineExperimentConfig"] = {"ExperimentName": names.experiment, "TrialName": names.trial}
    if "SelectiveExecutionConfig" in request:
        answer["SelectiveExecutionConfig"] = request["SelectiveExecutionConfig"]
    if execution.pipeline_version is not None:
        answer["PipelineVersionId"] = execution.pipeline_version
    return answer


def execution_summary(execution: PipelineExecution, aliases: Sequence[str]) -> Output:
    """Returns one PipelineExecutionSummary."""
    answer = {**_execution(execution, aliases), "StartTime": seconds(execution.created_ms)}
    if execution.failure_reason is not None:
        answer["PipelineExecutionFailureReason"] = execution.failure_reason
    return answer


def _execution(execution: PipelineExecution, aliases: Sequence[str]) -> Output:
    answer: Output = {
        "PipelineExecutionArn": execution.key.arn,
        "PipelineExecutionStatus": STATUSES[execution.status],
    }
    for name in ("PipelineExecutionDisplayName", "PipelineExecutionDescription"):
        if name in execution.request:
            answer[name] = execution.request[name]
    return {**answer, "PipelineVersionAliases": [*aliases]} if aliases else answer


def step(execution: PipelineExecution, run: StepRun) -> Output:
    """Returns one PipelineExecutionStep."""
    given = parse(execution.definition).steps[run.name]
    answer: Output = {
        "StepName": run.name,
        "StepDisplayName": given.given.get("DisplayName") or run.name,
        "StartTime": seconds(run.start_ms),
        "StepStatus": run.status.value,
        "AttemptCount": run.attempt,
        "Metadata": metadata(execution, given, run),
    }
    if given.given.get("Description") is not None:
        answer["StepDescription"] = given.given["Description"]
    if run.end_ms is not None:
        answer["EndTime"] = seconds(run.end_ms)
    if run.failure_reason is not None:
        answer["FailureReason"] = run.failure_reason[:1024]
    if run.cached_from is not None:
        answer["CacheHitResult"] = {"SourcePipelineExecutionArn": run.cached_from}
    if run.selected_from is not None:
        answer["SelectiveExecutionResult"] = {"SourcePipelineExecutionArn": run.selected_from}
    return answer


def metadata(execution: PipelineExecution, step: Step, run: StepRun) -> Output:
    """Returns PipelineExecutionStepMetadata: what the step made. Empty before it has made it."""
    if step.type == "Condition":
        return {"Condition": {"Outcome": run.properties["Outcome"]}} if run.properties else {}
    if step.type == "Fail":
        return {"Fail": {"ErrorMessage": run.failure_reason or ""}}
    if step.type == "Callback":
        return _callback(run)
    if step.type == "Lambda":
        return _lambda(run)
    if run.made is None:
        return {}
    member, resource = _MADE[step.type]
    if run.made.startswith("arn:"):
        return {member: {"Arn": run.made}}
    return {member: {"Arn": _arn(execution, f"{resource}/{run.made.lower()}")}}


def _arn(execution: PipelineExecution, resource: str) -> str:
    return arn("sagemaker", execution.key.region, execution.key.account, resource)


def _callback(run: StepRun) -> Output:
    if run.made is None:
        return {}
    return {
        "Callback": {
            "CallbackToken": run.made,
            "SqsQueueUrl": run.arguments["SqsQueueUrl"],
            "OutputParameters": _outputs(run),
        }
    }


def _lambda(run: StepRun) -> Output:
    if run.made is None:
        return {}
    return {"Lambda": {"Arn": text_of(run.arguments["FunctionArn"]), "OutputParameters": _outputs(run)}}


def _outputs(run: StepRun) -> list[Output]:
    return [
        {"Name": name, "Value": text_of(value)} for name, value in run.properties.get("OutputParameters", {}).items()
    ]


#: The member of the metadata, and the kind of resource in its ARN.
_MADE: Mapping[str, tuple[str, str]] = {
    "Training": ("TrainingJob", "training-job"),
    "Processing": ("ProcessingJob", "processing-job"),
    "Tuning": ("TuningJob", "hyper-parameter-tuning-job"),
    "Model": ("Model", "model"),
    "RegisterModel": ("RegisterModel", "model-package"),
}
