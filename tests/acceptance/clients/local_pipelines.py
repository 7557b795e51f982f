"""Runs every case of `local_pipeline_cases.py` by SDK v2's LocalPipelineSession and by sagelet.

Prints what happened on both sides, with what must differ (buckets, names of jobs, ids of executions) replaced.
"""

import copy
import json
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError
from sagemaker.workflow.pipeline import Pipeline, PipelineGraph
from sagemaker.workflow.pipeline_context import LocalPipelineSession, PipelineSession

sys.path.insert(0, str(Path(__file__).parents[2]))

import acceptance.clients.local_pipeline_cases  # noqa: F401 - it registers its cases
from acceptance.clients.local_pipeline_place import CASES, ROLE, Place
from support.pipeline_programs import members

RAW = {"raw/a.txt": "alpha", "raw/deep/b.txt": "beta"}
JOBS = ("Training", "Processing", "Model")
ENDED = ("Succeeded", "Failed", "Stopped")


class Recorder:
    """The local client of the SDK. It notes the requests that create something."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.made: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("create_training_job", "create_processing_job", "create_model"):
            return found

        def create(made: str, **request: Any) -> Any:
            # Local mode writes into the request.
            self.made.append((made, copy.deepcopy(request)))
            return found(made, **request)

        return create


@dataclass
class Side:
    session: Any
    bucket: str
    instance_type: str

    def __post_init__(self) -> None:
        self.s3 = boto3.client("s3")
        self.s3.create_bucket(Bucket=self.bucket)

    def pipeline(self, name: str) -> tuple[Pipeline, dict[str, Any]]:
        for path, text in RAW.items():
            self.s3.put_object(Bucket=self.bucket, Key=f"{name}/{path}", Body=text.encode())
        built = CASES[name](Place(self.session, self.instance_type, self.bucket, name))
        pipeline = Pipeline(name=name, parameters=built.parameters, steps=built.steps, sagemaker_session=self.session)
        return pipeline, built.given

    def outputs(self, name: str) -> dict[str, Any]:
        """The texts of all objects of a case, and what containers noted of their arguments, read."""
        texts = self._texts(name)
        return {key: json.loads(text) if key.endswith("/seen.json") else text for key, text in texts.items()}

    def _texts(self, name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{name}/"):
            for one in page.get("Contents", []):
                content = self.s3.get_object(Bucket=self.bucket, Key=one["Key"])["Body"].read()
                archive = one["Key"].endswith(".tar.gz")
                found.update(members(one["Key"], content) if archive else {one["Key"]: content.decode()})
        return found

    def normalised(self, ran: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
        """Replaces what must differ. `names`: what is replaced, by what."""
        text = json.dumps(ran, default=str).replace(self.bucket, "BUCKET")
        for name, new in sorted(names.items(), key=lambda one: -len(one[0])):
            text = text.replace(name, new)
        replaced: dict[str, Any] = json.loads(text)
        return replaced


class Local(Side):
    def run(self, name: str) -> dict[str, Any]:
        pipeline, given = self.pipeline(name)
        self.session.sagemaker_client.made.clear()
        try:
            pipeline.create(ROLE, "")
            execution = pipeline.start(parameters=given)
        except ClientError as error:
            return {"refused": error.response["Error"]["Code"]}
        listed = sorted(execution.list_steps()["PipelineExecutionSteps"], key=lambda one: one["StartTime"])
        graph = PipelineGraph.from_pipeline(pipeline)
        kinds = {one: graph.step_map[one].step_type.value for one in (step["StepName"] for step in listed)}
        jobs = [one["StepName"] for one in listed if kinds[one["StepName"]] in JOBS]
        made = dict(zip(jobs, self.session.sagemaker_client.made, strict=False))
        ran = {
            "status": execution.describe()["PipelineExecutionStatus"],
            "steps": [_step(one) for one in listed],
            "requests": {step: request for step, (_, request) in made.items()},
            "properties": {step: execution.step_execution[step].properties for step in jobs},
            "outputs": self.outputs(name),
        }
        edges = [[one, after] for one, then in graph.adjacency_list.items() for after in then]
        names = {job: f"JOB-{step}" for step, (job, _) in made.items()}
        return {**self.normalised(ran, {**names, execution.pipeline_execution_name: "EXECUTION"}), "edges": edges}


class Sagelet(Side):
    def start(self, name: str) -> Any:
        """Returns the execution, or why it was refused."""
        pipeline, given = self.pipeline(name)
        try:
            pipeline.create(ROLE, "")
            return pipeline.start(parameters=given)
        except ClientError as error:
            return {"refused": error.response["Error"]["Code"]}

    def ended(self, name: str, execution: Any) -> dict[str, Any]:
        if isinstance(execution, dict):
            return execution
        deadline = time.monotonic() + 60
        while (status := execution.describe()["PipelineExecutionStatus"]) not in ENDED:
            assert time.monotonic() < deadline, f"{name} is still {status}"
            time.sleep(0.05)
        listed = sorted(execution.list_steps(), key=lambda one: one["StartTime"])
        jobs = {one["StepName"]: described for one in listed for described in self._described(one)}
        ran = {
            "status": status,
            "steps": [_step(one) for one in listed],
            "requests": jobs,
            "properties": {step: _by_name(job) for step, job in jobs.items()},
            "outputs": self.outputs(name),
        }
        names = {
            job[member]: f"JOB-{step}"
            for step, job in jobs.items()
            for member in ("TrainingJobName", "ProcessingJobName", "ModelName")
            if member in job
        }
        return self.normalised(ran, {**names, execution.arn.rpartition("/")[2]: "EXECUTION"})

    def _described(self, step: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields what a step made as its Describe call has it."""
        sagemaker = self.session.sagemaker_client
        for kind, made in step["Metadata"].items():
            name = made.get("Arn", "").rpartition("/")[2]
            if kind == "TrainingJob":
                yield sagemaker.describe_training_job(TrainingJobName=name)
            elif kind == "ProcessingJob":
                yield sagemaker.describe_processing_job(ProcessingJobName=name)
            elif kind == "Model":
                yield sagemaker.describe_model(ModelName=name)


def _by_name(job: dict[str, Any]) -> dict[str, Any]:
    """Returns a description in which inputs and outputs are found by their names, as properties refer to them."""
    if "ProcessingJobName" not in job:
        return job
    inputs = {one["InputName"]: one for one in job.get("ProcessingInputs", [])}
    outputs = {one["OutputName"]: one for one in job.get("ProcessingOutputConfig", {}).get("Outputs", [])}
    return {**job, "ProcessingInputs": inputs, "ProcessingOutputConfig": {"Outputs": outputs}}


def _step(one: dict[str, Any]) -> dict[str, Any]:
    metadata = one.get("Metadata", {})
    return {
        "name": one["StepName"],
        "status": one["StepStatus"],
        "start": _seconds(one["StartTime"]),
        "end": _seconds(one["EndTime"]),
        "reason": one.get("FailureReason"),
        "outcome": metadata.get("Condition", {}).get("Outcome"),
        "message": metadata.get("Fail", {}).get("ErrorMessage"),
    }


def _seconds(moment: Any) -> float:
    return moment if isinstance(moment, float) else float(moment.timestamp())


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    Path("script.py").write_text("print('stands in for a script')\n")
    local = Local(LocalPipelineSession(default_bucket="local-side"), "local-side", "local")
    local.session.sagemaker_client = Recorder(local.session.sagemaker_client)
    sagelet = Sagelet(PipelineSession(default_bucket="sagelet-side"), "sagelet-side", "ml.m5.large")
    begun = {name: sagelet.start(name) for name in CASES}
    ran = {name: {"local": local.run(name), "sagelet": sagelet.ended(name, begun[name])} for name in CASES}
    print("ANSWER", json.dumps(ran))


if __name__ == "__main__":
    main()
