"""Makes docs/reference/pipeline-api.md, as training_job_api.py makes the page of training jobs."""

from training_job_api import ROOT, classification, input_of, request_rows, service_model, table

PAGE = ROOT / "docs" / "reference" / "pipeline-api.md"
OPERATIONS = (
    "CreatePipeline",
    "UpdatePipeline",
    "UpdatePipelineVersion",
    "DeletePipeline",
    "DescribePipeline",
    "ListPipelines",
    "ListPipelineVersions",
    "StartPipelineExecution",
    "DescribePipelineExecution",
    "DescribePipelineDefinitionForExecution",
    "UpdatePipelineExecution",
    "ListPipelineExecutions",
    "ListPipelineExecutionSteps",
    "ListPipelineParametersForExecution",
    "StopPipelineExecution",
    "RetryPipelineExecution",
    "SendPipelineExecutionStepSuccess",
    "SendPipelineExecutionStepFailure",
)
_INTRODUCTION = """\
# The pipeline API, member by member

Made by `make docs` from botocore's service model and `services/members.toml`; do not edit. What the words mean, and
what is checked of every member, is on [the page of training jobs](training-job-api.md). The steps and what a definition
may have are in [pipelines](../how-to/pipelines.md). AddTags, DeleteTags and ListTags take the ARN of a pipeline.
"""


def page() -> str:
    """The whole page. Raises Unclassified."""
    model, data = service_model(), classification()
    parts = [_INTRODUCTION]
    for operation in OPERATIONS:
        rows = request_rows(operation, input_of(model, operation), data[operation])
        parts.append(f"## {operation}: request\n\n{table(rows)}")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
