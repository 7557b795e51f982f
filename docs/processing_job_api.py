"""Makes docs/reference/processing-job-api.md, as training_job_api.py makes the page of training jobs."""

from training_job_api import ROOT, classification, describe_rows, input_of, request_rows, service_model, table

PAGE = ROOT / "docs" / "reference" / "processing-job-api.md"
OPERATIONS = ("CreateProcessingJob", "StopProcessingJob", "DeleteProcessingJob", "ListProcessingJobs")
DESCRIBE = "DescribeProcessingJob"
_INTRODUCTION = """\
# The processing-job API, member by member

Made by `make docs` from botocore's service model and `services/members.toml`; do not edit. What the words mean, and
what is checked of every member, is on [the page of training jobs](training-job-api.md). What the container finds and
leaves is in [processing jobs](../how-to/processing.md).
"""


def page() -> str:
    """The whole page. Raises Unclassified."""
    model, data = service_model(), classification()
    parts = [_INTRODUCTION]
    for operation in OPERATIONS:
        rows = request_rows(operation, input_of(model, operation), data[operation])
        parts.append(f"## {operation}: request\n\n{table(rows)}")
    parts.append(
        f"## {DESCRIBE}: answer\n\n"
        "**request**: what CreateProcessingJob brought, as it came. **set**: sagelet sets it. **never**: no answer\n"
        "has it.\n\n"
        f"{table(describe_rows(model, data, 'ProcessingJob'))}"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
