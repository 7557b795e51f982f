"""Processing jobs of a server with --runtime slurm. They are shell scripts, which start in less than a second."""

import uuid
from typing import Any

from support.jobs import objects_below
from support.processing import cluster, given, processing_request
from support.server import ENDED, NATIVE, SageletProcess, until

GROUP = "/aws/sagemaker/ProcessingJobs"
CODE = "/opt/ml/processing/code"


class SlurmProcessing:
    def __init__(self, server: SageletProcess) -> None:
        self.server = server
        self.sagemaker = server.client("sagemaker")
        self.s3 = server.client("s3")
        self.logs = server.client("logs")
        self._submitted: list[str] = []
        self.s3.create_bucket(Bucket="tests")

    def run(self, script: str, *, hosts: int = 1, max_runtime: int = 600, image: str = NATIVE, **options: Any) -> str:
        """Starts a job and returns its name. `options`: members of the request.

        The script is an input, as ScriptProcessor's, since an entry point may hold 256 characters of one line.
        """
        name = f"processing-{uuid.uuid4().hex[:12]}"
        code = self.put(f"{name}/code", **{"run.sh": script.encode()})
        request = processing_request(
            name,
            **{
                **cluster(InstanceCount=hosts, VolumeSizeInGB=1),
                "AppSpecification": {"ImageUri": image, "ContainerEntrypoint": ["/bin/sh", f"{CODE}/run.sh"]},
                "StoppingCondition": {"MaxRuntimeInSeconds": max_runtime},
                **options,
                "ProcessingInputs": [given("code", code, CODE), *options.get("ProcessingInputs", ())],
            },
        )
        self.sagemaker.create_processing_job(**request)
        self._submitted.append(name)
        return name

    def describe(self, name: str) -> dict[str, Any]:
        description: dict[str, Any] = self.sagemaker.describe_processing_job(ProcessingJobName=name)
        return description

    def ended(self, name: str, seconds: float = 300) -> dict[str, Any]:
        """Waits for the job's end and returns its description."""
        until(lambda: self.describe(name)["ProcessingJobStatus"] in ENDED, seconds, slowest=0.5)
        return self.describe(name)

    def ready(self, name: str, count: int = 1) -> None:
        """Waits until so many hosts have said that they are ready."""

        def said() -> bool:
            description = self.describe(name)
            assert description["ProcessingJobStatus"] not in ENDED, description
            return self.lines(name).count("ready") >= count

        until(said)

    def lines(self, name: str, host: str = "") -> list[str]:
        """Returns the lines of all streams, or of one host's."""
        try:
            streams = self.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/{host}")
        except self.logs.exceptions.ResourceNotFoundException:
            return []
        found = []
        for stream in sorted(streams["logStreams"], key=lambda one: int(one["creationTime"])):
            events = self.logs.get_log_events(
                logGroupName=GROUP, logStreamName=stream["logStreamName"], startFromHead=True
            )
            found += [event["message"] for event in events["events"]]
        return found

    def objects(self, prefix: str) -> dict[str, bytes]:
        return objects_below(self.s3, prefix)

    def put(self, prefix: str, **contents: bytes) -> str:
        """Puts objects below a prefix. Returns its URI."""
        for name, content in contents.items():
            self.s3.put_object(Bucket="tests", Key=f"{prefix}/{name}", Body=content)
        return f"s3://tests/{prefix}"

    def stop_all(self) -> None:
        for name in self._submitted:
            if self.describe(name)["ProcessingJobStatus"] not in ENDED:
                self.sagemaker.stop_processing_job(ProcessingJobName=name)
        for name in self._submitted:
            self.ended(name)
