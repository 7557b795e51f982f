"""A server that is killed at failpoints, one in each of its lives, while clients go on with their calls.

Jobs are shell scripts with entry points of their own. Each host writes a line into a directory outside for every start
of its script, so one start too many is seen whatever the server believes.
"""

import json
import statistics
import time
import urllib.error
import urllib.request
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError

from sagelet_engine.base.failpoints import VARIABLE, Failpoint
from support.jobs import written_by_the_job
from support.server import ACCOUNT, ENDED, GROUP, NATIVE, ROLE, SageletProcess, until

T = TypeVar("T")
FILE_SYSTEM = "fs-0123456789abcdef0"
BUCKET = "kills"
LINES = 40
#: In a script: the directory outside.
OUTSIDE = "/opt/ml/input/data/outside"
STARTED = f"echo x >>{OUTSIDE}/starts/$SAGELET_JOB_ID.$(hostname);cd /opt/ml"
#: Errors of a client whose server is killed. (botocore takes a truncated answer for one without members.)
GONE = (EndpointConnectionError, HTTPClientError, OSError, KeyError)
#: A client that makes no second try.
CLIENT = Config(retries={"total_max_attempts": 1}, connect_timeout=60, read_timeout=60)


@dataclass(frozen=True)
class Life:
    """One kill: the failpoint, and which pass through it."""

    at: Failpoint
    number: int = 1

    def __str__(self) -> str:
        return f"{self.at.value}=kill:{self.number}"


@dataclass
class Figures:
    kills: int = 0
    #: Seconds from the start of each server's process until the log has what the running job printed after that.
    adopted: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        slowest = max(self.adopted, default=0.0)
        median = statistics.median(self.adopted) if self.adopted else 0.0
        return f"{self.kills} kills; adopted within {median:.2f} s (median), {slowest:.2f} s (most)"


class Mortal:
    """A server with lives to lose, in order. When all are lost, it stays alive."""

    def __init__(self, directory: Path, lives: Sequence[Life], *options: str, image: str = NATIVE) -> None:
        self.outside = directory / "outside"
        for name in ("starts", "scripts"):
            (self.outside / name).mkdir(parents=True)
        for shared_with in (self.outside, *self.outside.iterdir()):
            # Containers of a server that runs as root run as nobody.
            shared_with.chmod(0o777)
        shared = f"{FILE_SYSTEM}={self.outside}"
        self.server = SageletProcess(directory / "data", *options, "--file-system", shared)
        self.image = image
        #: Further variables of the server's environment.
        self.variables: dict[str, str] = {}
        self.figures = Figures()
        #: Every job that a client asked for.
        self.names: list[str] = []
        self._lives = deque(lives)
        #: The current life. None once all are lost.
        self.life: Life | None = None
        self._witness: str | None = None

    def start(self) -> None:
        """Starts the server until one start gets as far as being ready. Each failed start costs a life."""
        while True:
            self.life = self._lives.popleft() if self._lives else None
            self.server.environment = {**self.variables, VARIABLE: str(self.life or "")}
            began = time.monotonic()
            if self.server.begin():
                break
            self._bury()
        self._clients = {name: self.server.client(name, config=CLIENT) for name in ("sagemaker", "s3", "logs", "iam")}
        if self._witness is not None:
            self._adopted(began)

    def close(self) -> None:
        """Ends the server and everything that a failed test has left running."""
        self.server.stop()
        for process in self.shims():
            process.kill()

    def shims(self) -> list[psutil.Process]:
        """Returns the shims of hosts that run as processes. A shim's argument is its host's directory."""
        data = str(self.server.data)
        found = ((process, " ".join(process.info["cmdline"] or ())) for process in psutil.process_iter(["cmdline"]))
        return [process for process, words in found if "host_shim.py" in words and data in words]

    def dead(self) -> bool:
        return self.server.ended is not None

    def _bury(self) -> None:
        until(self.dead)
        assert self.life is not None, f"the server ended by itself: {''.join(self.server.output)}"
        assert self.server.ended == -9, "".join(self.server.output)
        said = f"failpoint {self.life.at.value}:"
        until(lambda: any(said in line for line in self.server.output))
        self.figures.kills += 1

    def again(self) -> None:
        """Starts the next life after the server was killed."""
        self._bury()
        self.start()

    def ask(self, call: Callable[["Mortal"], T]) -> T:
        """Returns the answer to a call. Repeats the call each time that the server is killed by it."""
        while True:
            try:
                return call(self)
            except GONE:
                self.again()

    def client(self, service: str) -> Any:
        return self._clients[service]

    # --- the witness: a job that runs all the time ----------------------------------------------------------------

    def watch(self, name: str) -> None:
        """Has every further start note how soon this job is adopted."""
        self._witness = name

    def printed(self) -> int:
        """Returns the last number that the witness has printed."""
        path = self.outside / "printed"
        return int(until(lambda: path.exists() and path.read_text().strip()))

    def _adopted(self, began: float) -> None:
        printed = self.printed()
        try:
            until(lambda: self.dead() or self._last_line() >= printed, every=0.02)
        except GONE:
            return
        if not self.dead():
            self.figures.adopted.append(time.monotonic() - began)

    def _last_line(self) -> int:
        for stream in self._streams(f"{self._witness}/algo-1"):
            page = self.client("logs").get_log_events(logGroupName=GROUP, logStreamName=stream, limit=1)
            for event in page["events"]:
                return int(event["message"].split()[1])
        return -1

    # --- jobs -----------------------------------------------------------------------------------------------------

    def create(self, kind: str, script: str, *, hosts: int = 1, **changes: Any) -> str:
        """Calls CreateTrainingJob. A repeated call learns that the job exists if the first one came through."""
        name, request = self._request(kind, script, hosts, changes)
        self._create("create_training_job", request)
        return name

    def process(self, kind: str, script: str, *, hosts: int = 1) -> str:
        """Calls CreateProcessingJob, with an output `out` in `BUCKET/NAME`; see `create`."""
        name = f"{kind}-{uuid.uuid4().hex[:8]}"
        self.names.append(name)
        output = {"S3Uri": f"s3://{BUCKET}/{name}", "LocalPath": "/opt/ml/processing/out", "S3UploadMode": "Continuous"}
        cluster = {"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 10}
        request = {
            "ProcessingJobName": name,
            "RoleArn": ROLE,
            "AppSpecification": {"ImageUri": self.image, "ContainerEntrypoint": ["/bin/sh", "-c", script]},
            "ProcessingResources": {"ClusterConfig": cluster},
            "ProcessingOutputConfig": {"Outputs": [{"OutputName": "out", "S3Output": output}]},
        }
        self._create("create_processing_job", request)
        return name

    def tune(self, kind: str, script: str, *, most: int, parallel: int) -> str:
        """Calls CreateHyperParameterTuningJob, with a metric `line` to minimize; see `create`."""
        name, job = self._request(kind, script, 1, {})
        del job["TrainingJobName"]
        # Such a definition has no entry point of its own. The image's runs a script by its ending.
        del job["AlgorithmSpecification"]["ContainerEntrypoint"]
        (self.outside / "scripts" / name).rename(self.outside / "scripts" / f"{name}.sh")
        source = {"sagemaker_submit_directory": f"{OUTSIDE}/scripts", "sagemaker_program": f"{name}.sh"}
        job["StaticHyperParameters"] = {key: json.dumps(value) for key, value in source.items()}
        config = {
            "Strategy": "Random",
            "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "line"},
            "ResourceLimits": {"MaxNumberOfTrainingJobs": most, "MaxParallelTrainingJobs": parallel},
            "ParameterRanges": {"IntegerParameterRanges": [{"Name": "n", "MinValue": "1", "MaxValue": "9"}]},
        }
        body = {"HyperParameterTuningJobName": name, "HyperParameterTuningJobConfig": config}
        self._create("create_hyper_parameter_tuning_job", {**body, "TrainingJobDefinition": job})
        return name

    def pipeline(self, kind: str, *scripts: str) -> str:
        """Creates a pipeline of Training steps, one after the other, and starts it. Returns the execution's ARN."""
        steps: list[dict[str, Any]] = []
        for number, script in enumerate(scripts):
            job = self._request(kind, script, 1, {})[1]
            del job["TrainingJobName"]
            needs = {"DependsOn": [f"step{number - 1}"]} if number else {}
            steps.append({"Name": f"step{number}", "Type": "Training", "Arguments": job, **needs})
        name, token = f"{kind}-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
        text = json.dumps({"Version": "2020-12-01", "Steps": steps})
        role = steps[0]["Arguments"]["RoleArn"]

        def create(mortal: "Mortal") -> None:
            asked = {"PipelineName": name, "PipelineDefinition": text, "RoleArn": role, "ClientRequestToken": token}
            try:
                mortal.client("sagemaker").create_pipeline(**asked)
            except ClientError as error:
                # The server was killed after it had made the pipeline.
                if "already exists" not in str(error):
                    raise

        self.ask(create)
        asked = {"PipelineName": name, "ClientRequestToken": token}
        answer = self.ask(lambda one: one.client("sagemaker").start_pipeline_execution(**asked))
        return str(answer["PipelineExecutionArn"])

    def _request(self, kind: str, script: str, hosts: int, changes: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        name = f"{kind}-{uuid.uuid4().hex[:8]}"
        self.names.append(name)
        # An argument of an entry point has at most 256 characters.
        (self.outside / "scripts" / name).write_text(f"{STARTED};{script}\n")
        source = {
            "FileSystemId": FILE_SYSTEM,
            "FileSystemType": "EFS",
            "DirectoryPath": "/",
            "FileSystemAccessMode": "rw",
        }
        return name, {
            "TrainingJobName": name,
            "AlgorithmSpecification": {
                "TrainingImage": self.image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["/bin/sh", f"{OUTSIDE}/scripts/{name}"],
                "MetricDefinitions": changes.pop("metrics", [{"Name": "line", "Regex": "line ([0-9]+)"}]),
            },
            "RoleArn": ROLE,
            "InputDataConfig": [{"ChannelName": "outside", "DataSource": {"FileSystemDataSource": source}}],
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
            "ResourceConfig": {
                "InstanceType": "ml.m5.large",
                "InstanceCount": hosts,
                "VolumeSizeInGB": 10,
                **changes.pop("resources", {}),
            },
            "StoppingCondition": {"MaxRuntimeInSeconds": 3600, **changes.pop("limits", {})},
            **changes,
        }

    def _create(self, operation: str, request: dict[str, Any]) -> None:
        def create(mortal: Mortal) -> None:
            try:
                getattr(mortal.client("sagemaker"), operation)(**request)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceInUse":
                    raise

        self.ask(create)

    def describe(self, name: str) -> dict[str, Any]:
        def describe(mortal: Mortal) -> dict[str, Any]:
            job: dict[str, Any] = mortal.client("sagemaker").describe_training_job(TrainingJobName=name)
            # A truncated answer has no members.
            return {"TrainingJobName": job["TrainingJobName"], **job}

        return self.ask(describe)

    def ended(self, name: str) -> dict[str, Any]:
        until(lambda: self.describe(name)["TrainingJobStatus"] in ENDED)
        return self.describe(name)

    def interrupt(self, name: str) -> None:
        """Interrupts a job. A repeated call may find that the job has another status."""

        def interrupt(mortal: Mortal) -> None:
            url = f"{mortal.server.endpoint}/_sagelet/jobs/{name}/interrupt?account={ACCOUNT}"
            try:
                with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60):
                    pass
            except urllib.error.HTTPError as error:
                if error.code >= 500:
                    raise

        self.ask(interrupt)

    def log(self, name: str, group: str = GROUP) -> dict[str, list[str]]:
        """Returns what a job with one attempt wrote, by stream. Stream names are shortened to `algo-1`."""
        return {
            stream.split("/")[1].rsplit("-", 1)[0]: written_by_the_job(self._lines(stream, group))
            for stream in self.ask(lambda _: self._streams(f"{name}/", group))
        }

    def attempts_log(self, name: str) -> list[list[str]]:
        """Returns the lines of each stream of all attempts."""
        return [self._lines(stream) for stream in self.ask(lambda _: self._streams(f"{name}/"))]

    def _streams(self, prefix: str, group: str = GROUP) -> list[str]:
        logs = self.client("logs")
        try:
            found = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=prefix)
        except logs.exceptions.ResourceNotFoundException:
            return []
        return [one["logStreamName"] for one in found["logStreams"]]

    def _lines(self, stream: str, group: str = GROUP) -> list[str]:
        def lines(mortal: Mortal) -> list[str]:
            pages = (
                mortal.client("logs")
                .get_paginator("filter_log_events")
                .paginate(logGroupName=group, logStreamNames=[stream])
            )
            return [event["message"] for page in pages for event in page["events"]]

        return self.ask(lines)

    def has_line(self, name: str, text: str) -> bool:
        return any(text in lines for lines in self.log(name).values())

    def starts(self) -> dict[str, int]:
        """Counts the starts of the script of each host of each attempt, by `LAUNCH.HOST`."""
        return {path.name: len(path.read_text().split()) for path in (self.outside / "starts").iterdir()}
