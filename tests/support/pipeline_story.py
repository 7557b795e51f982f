"""A client of pipelines that writes down its calls, the answers, and how executions and their steps ended."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from sagelet.testing import FastForward, Job, ProcessingJob
from support.pipelines import ROLE
from support.transcripts import Transcript

#: The server's clock begins then. Times in transcripts are seconds since.
BEGINNING = datetime(2026, 1, 1, tzinfo=timezone.utc)
#: How long a job takes whose function the story does not set, s.
JOB_S = 60
#: Members with the time of moto, which has a clock of its own.
OF_MOTO = ("CreationTime", "LastModifiedTime")


class PipelineStory:
    """One client of a server of its own, in which jobs are functions."""

    def __init__(self, directory: Path) -> None:
        self.server = FastForward(directory, start=BEGINNING)
        #: False if functions run for real: their time is not the test's.
        self.tells_time = True
        self._events: list[dict[str, Any]] = []
        #: Names that differ from one run to the next, and what the transcript has in their place.
        self._names: dict[str, str] = {}
        self._started = 0

    def __enter__(self) -> "PipelineStory":
        self.server.start()
        self._session = self.server.session()
        self._clients: dict[str, Any] = {}
        for bucket in ("steps", "out"):
            self.client("s3").create_bucket(Bucket=bucket)

        @self.server.train
        def train(job: Job) -> None:
            job.clock.advance(JOB_S)
            job.print(f"loss={float(job.hyperparameters.get('lr', 1)) / 2:.6f}")
            (job.model_dir / "weights").write_text("w")

        @self.server.process
        def process(job: ProcessingJob) -> None:
            job.clock.advance(JOB_S)

        return self

    def __exit__(self, *_error: object) -> None:
        self.server.stop()

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.client(service)
        return self._clients[service]

    def call(self, operation: str, *, service: str = "sagemaker", keeps: tuple[str, ...] = (), **request: Any) -> Any:
        """Calls an operation and notes it. `keeps`: members of the answer to note; by default all. Returns the answer,
        or None if the call was refused.
        """
        event: dict[str, Any] = {"call": operation, "request": _definition_read(request)}
        self._events.append(event)
        try:
            answer = getattr(self.client(service), xform_name(operation))(**request)
        except ClientError as error:
            event["refused"] = f"{error.response['Error']['Code']}: {error.response['Error']['Message']}"
            return None
        members = {name: value for name, value in answer.items() if name != "ResponseMetadata"}
        event["answers"] = {name: members[name] for name in keeps or members}
        return answer

    def create(self, definition: str, name: str = "Pipe") -> None:
        self.call("CreatePipeline", PipelineName=name, PipelineDefinition=definition, RoleArn=ROLE,
                  ClientRequestToken="t" * 32)  # fmt: skip

    def start(self, name: str = "Pipe", **given: Any) -> str:
        """Starts an execution. Returns its ARN."""
        self._started += 1
        token = f"{self._started:032}"
        answer = self.call("StartPipelineExecution", PipelineName=name, ClientRequestToken=token, **given)
        arn = str(answer["PipelineExecutionArn"])
        self._names[arn.rpartition("/")[2]] = f"EXECUTION{self._started}"
        return arn

    def ended(self, arn: str) -> dict[str, Any]:
        """Waits for the end of an execution, and notes it with its steps. Returns the steps by name."""
        answer = self.server.wait_execution(arn)
        kept = ("PipelineExecutionStatus", "FailureReason", "CreationTime", "LastModifiedTime")
        self._events.append({"describes": {name: answer[name] for name in kept if name in answer}})
        return self.steps(arn)

    def steps(self, arn: str) -> dict[str, Any]:
        """Notes the steps as ListPipelineExecutionSteps has them now. Returns them by name."""
        found = self.server.steps(arn)
        execution = self._names[arn.rpartition("/")[2]]
        for name, step in found.items():
            for made in step["Metadata"].values():
                job = made.get("Arn", "").rpartition("/")[2]
                if job not in self._names and re.search(r"-[0-9a-f]{10}$", job):
                    again = sum(one.startswith(f"{execution}-{name}") for one in self._names.values())
                    self._names[job] = f"{execution}-{name}" + (f"-again{again}" if again else "")
        self._events.append({"lists steps": [*found.values()]})
        return found

    def names(self, name: str, instead: str) -> None:
        """Replaces a name in the transcript."""
        self._names.setdefault(name, instead)

    def notes(self, what: str, value: Any) -> None:
        self._events.append({what: value})

    def transcript(self) -> Transcript:
        text = json.dumps(self._plain(self._events))
        for name in sorted(self._names, key=len, reverse=True):
            # The ARN of a job has its name in small letters.
            text = re.sub(re.escape(name), self._names[name], text, flags=re.IGNORECASE)
        return {"transcript": json.loads(text)}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return (value - BEGINNING).total_seconds() if self.tells_time else "some time"
        if isinstance(value, dict):
            return {name: self._plain(inner) for name, inner in value.items()}
        return [self._plain(inner) for inner in value] if isinstance(value, list) else value


def _definition_read(request: dict[str, Any]) -> dict[str, Any]:
    """Returns a request with its definition as JSON, so that the transcript shows it line by line."""
    if "PipelineDefinition" not in request:
        return request
    return {**request, "PipelineDefinition": json.loads(request["PipelineDefinition"])}


Play = Callable[[PipelineStory], None]
