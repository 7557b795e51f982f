"""The values of `Execution.`: those of SDK v2's `workflow/execution_variables.py`."""

from collections.abc import Mapping
from datetime import datetime, timezone

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.pipeline import PipelineExecution, StepRun
from sagelet_engine.pipelines.definition import Step
from sagelet_engine.pipelines.steps import KINDS, JobStep, job_name

VARIABLES = (
    "PipelineName",
    "PipelineArn",
    "PipelineExecutionId",
    "PipelineExecutionArn",
    "StartDateTime",
    "CurrentDateTime",
)
#: Variables that are the name of the step's own job, and the type of the steps that have them.
JOB_NAMES: Mapping[str, str] = {"TrainingJobName": "Training", "ProcessingJobName": "Processing"}


def variables(execution: PipelineExecution, step: Step, run: StepRun) -> JsonObject:
    """Returns the values for one step."""
    return {**common_variables(execution, run.start_ms), **_job_names(execution, step, run)}


def common_variables(execution: PipelineExecution, now_ms: int) -> JsonObject:
    """Returns the values that all steps have. `now_ms`: CurrentDateTime."""
    pipeline = execution.pipeline_key
    values = (
        pipeline.name,
        pipeline.arn,
        execution.execution_id,
        execution.key.arn,
        _iso(execution.created_ms),
        _iso(now_ms),
    )
    return dict(zip(VARIABLES, values, strict=True))


def names_its_job(step: Step) -> bool:
    """True if the step's arguments have the name of its job, which differs from one attempt to the next."""
    return any(one.execution in JOB_NAMES for one in step.references)


def _job_names(execution: PipelineExecution, step: Step, run: StepRun) -> JsonObject:
    kind = KINDS.get(step.type)
    if not isinstance(kind, JobStep):
        return {}
    given = step.arguments.get(f"{kind.noun}Name")
    if given is not None and not isinstance(given, str):
        # The name begins with the value of a function, which may refer to the name.
        return {}
    name = job_name(execution, run, given, kind.longest)
    return {variable: name for variable, type_ in JOB_NAMES.items() if type_ == step.type}


def _iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
