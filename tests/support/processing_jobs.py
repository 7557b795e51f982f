"""Processing jobs as tests submit and read them, through boto3."""

import textwrap
import uuid
from collections.abc import Sequence
from typing import Any

from support.processing import given, processing_request, result
from support.server import ENDED, SageletProcess, until

GROUP = "/aws/sagemaker/ProcessingJobs"
CODE, RAW, CLEAN = (f"/opt/ml/processing/{part}" for part in ("input/code", "input/raw", "output/clean"))


class ProcessingJobs:
    """Submits scripts to a server as processing jobs, and reads their results."""

    def __init__(self, server: SageletProcess) -> None:
        self.server = server
        self.sagemaker = server.client("sagemaker")
        self.s3 = server.client("s3")
        self.logs = server.client("logs")
        self.s3.create_bucket(Bucket="tests")
        self.s3.put_object(Bucket="tests", Key="raw/rows.csv", Body=b"amount,name\n1,a\n")

    def submit(self, files: dict[str, str] | str, command: Sequence[str] | None = None, **options: Any) -> str:
        """Starts a job that has the inputs `code` and `raw` and the output `clean`. Returns its name.

        `files`: those of the input `code`, or the text of prepare.py. `options`: members of the request; `arguments`
        are ContainerArguments. Members of ProcessingInputs replace `raw`.
        """
        name = f"job-{uuid.uuid4().hex[:12]}"
        for path, text in ({"prepare.py": files} if isinstance(files, str) else files).items():
            self.s3.put_object(Bucket="tests", Key=f"{name}/code/{path}", Body=textwrap.dedent(text).encode())
        program = processing_request(name)["AppSpecification"]
        program["ContainerEntrypoint"] = list(command or ("python3", f"{CODE}/prepare.py"))
        if "arguments" in options:
            program["ContainerArguments"] = options.pop("arguments")
        code = given("code", f"s3://tests/{name}/code", CODE)
        usual = {
            "AppSpecification": program,
            "ProcessingInputs": [code, *options.pop("ProcessingInputs", [given("raw", "s3://tests/raw", RAW)])],
            "ProcessingOutputConfig": {"Outputs": [result("clean", f"s3://tests/{name}/clean", CLEAN)]},
        }
        self.sagemaker.create_processing_job(**processing_request(name, **{**usual, **options}))
        return name

    def describe(self, name: str) -> dict[str, Any]:
        description: dict[str, Any] = self.sagemaker.describe_processing_job(ProcessingJobName=name)
        return description

    def ended(self, name: str, seconds: float = 300) -> dict[str, Any]:
        """Waits for the job's end and returns its description."""
        until(lambda: self.describe(name)["ProcessingJobStatus"] in ENDED, seconds, slowest=0.5)
        return self.describe(name)

    def log(self, name: str) -> list[str]:
        """Returns the last lines of the job's only stream. Empty if there is none."""
        try:
            found = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")["logStreams"]
        except self.logs.exceptions.ResourceNotFoundException:
            return []
        if not found:
            return []
        events = self.logs.get_log_events(logGroupName=GROUP, logStreamName=found[0]["logStreamName"])
        return [event["message"] for event in events["events"]]
