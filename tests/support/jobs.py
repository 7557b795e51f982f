"""Training jobs as tests submit and read them, through boto3."""

import io
import tarfile
import textwrap
import uuid
from collections.abc import Iterable
from typing import Any

from sagelet_engine.doctor.text import PREFIX
from support.server import ENDED, GROUP, NATIVE, ROLE, SageletProcess, until


def written_by_the_job(lines: Iterable[str]) -> list[str]:
    """Returns a log's lines without the doctor's: what it has to say depends on how long the machine took."""
    return [line for line in lines if not line.startswith(PREFIX)]


def objects_below(s3: Any, prefix: str) -> dict[str, bytes]:
    """Returns the objects of the bucket `tests` below a prefix, by their names below it."""
    listed = s3.list_objects_v2(Bucket="tests", Prefix=prefix).get("Contents", [])
    return {
        one["Key"].removeprefix(prefix): s3.get_object(Bucket="tests", Key=one["Key"])["Body"].read() for one in listed
    }


class Jobs:
    """Submits scripts to a server and reads their results."""

    def __init__(self, server: SageletProcess) -> None:
        self.server = server
        self.sagemaker = server.client("sagemaker")
        self.s3 = server.client("s3")
        self.logs = server.client("logs")

    def submit(self, files: dict[str, str | bytes] | str, **options: Any) -> str:
        """Starts a job of `train.py` and returns its name. `files`: the script's text, or all files of a directory."""
        if isinstance(files, str):
            files = {"train.py": textwrap.dedent(files)}
        name = options.pop("name", f"job-{uuid.uuid4().hex[:12]}")
        self.s3.create_bucket(Bucket="tests")
        self.s3.put_object(Bucket="tests", Key=f"{name}/sourcedir.tar.gz", Body=archive(files))
        hyperparameters = {
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": f'"s3://tests/{name}/sourcedir.tar.gz"',
            **options.pop("hyperparameters", {}),
        }
        self.sagemaker.create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={
                "TrainingImage": options.pop("image", NATIVE),
                "TrainingInputMode": "File",
                **({"MetricDefinitions": options.pop("metrics")} if "metrics" in options else {}),
                **({"ContainerEntrypoint": options.pop("entrypoint")} if "entrypoint" in options else {}),
            },
            RoleArn=ROLE,
            OutputDataConfig={"S3OutputPath": "s3://tests/out", **options.pop("output", {})},
            ResourceConfig={
                "InstanceType": options.pop("instance_type", "ml.p3.2xlarge"),
                "InstanceCount": options.pop("hosts", 1),
                "VolumeSizeInGB": 10,
                **options.pop("resources", {}),
            },
            StoppingCondition={
                "MaxRuntimeInSeconds": options.pop("max_runtime", 600),
                **({"MaxWaitTimeInSeconds": options.pop("max_wait")} if "max_wait" in options else {}),
            },
            HyperParameters=hyperparameters,
            **options,
        )
        return str(name)

    def describe(self, name: str) -> dict[str, Any]:
        description: dict[str, Any] = self.sagemaker.describe_training_job(TrainingJobName=name)
        return description

    def ended(self, name: str, seconds: float = 300) -> dict[str, Any]:
        """Waits for the job's end and returns its description."""
        until(lambda: self.describe(name)["TrainingJobStatus"] in ENDED, seconds, slowest=0.5)
        return self.describe(name)

    def streams(self, name: str) -> list[dict[str, Any]]:
        try:
            found = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")
        except self.logs.exceptions.ResourceNotFoundException:
            return []
        streams: list[dict[str, Any]] = found["logStreams"]
        return streams

    def log(self, name: str, host: str = "") -> list[str]:
        """Reads all messages of the job's only stream, or of a host's only stream, page by page."""
        streams = [one for one in self.streams(name) if f"/{host}" in one["logStreamName"]]
        if not streams:
            return []
        assert len(streams) == 1
        messages: list[str] = []
        token: dict[str, Any] = {}
        while True:
            page = self.logs.get_log_events(
                logGroupName=GROUP, logStreamName=streams[0]["logStreamName"], startFromHead=True, **token
            )
            messages += [event["message"] for event in page["events"]]
            if not page["events"]:
                return messages
            token = {"nextToken": page["nextForwardToken"]}

    def written(self, name: str, host: str = "") -> list[str]:
        """Returns the lines of `log` that the job wrote."""
        return written_by_the_job(self.log(name, host))

    def finding(self, name: str, rule: str) -> dict[str, Any]:
        """Returns the finding of one of the doctor's rules about a job. There must be exactly one."""
        (found,) = (one for one in self.server.doctor(name)["findings"] if one["rule"] == rule)
        return dict(found)

    def wait_for_line(self, name: str, text: str, seconds: float = 120, host: str = "") -> None:
        def seen() -> bool:
            description = self.describe(name)
            assert description["TrainingJobStatus"] not in ("Failed",), description["FailureReason"]
            return any(text in line for line in self.log(name, host))

        until(seen, seconds, slowest=0.5)

    def artifact(self, name: str, kind: str = "model", bucket: str = "tests", prefix: str = "out/") -> dict[str, bytes]:
        """Returns the files of model.tar.gz or output.tar.gz."""
        body = self.s3.get_object(Bucket=bucket, Key=f"{prefix}{name}/output/{kind}.tar.gz")["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(body)) as opened:
            members = [member for member in opened.getmembers() if member.isfile()]
            return {member.name: opened.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def archive(files: dict[str, str | bytes]) -> bytes:
    """Makes a source archive as the SDK does: files at the root of a .tar.gz."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as opened:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            opened.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
