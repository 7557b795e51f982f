"""Everything that acts with a role: types of steps, and the ways of a job's data. Each is a small story that can be
told with a role that may not do one of its actions.
"""

import io
import json
import tarfile
import uuid
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from sagelet.testing import FastForward, Job, ProcessingJob
from sagelet_api.services.iam import execution_role
from support.pipelines import definition, fail, step
from support.processing import given, processing_request, result
from support.tuning import definition as tuning_definition
from support.tuning import tuning_request
from support.world import request

BUCKET = "acting"
FUNCTION = "victim"
_TRUST = {"Service": ["sagemaker.amazonaws.com", "lambda.amazonaws.com"]}


class Roles:
    """Roles of a server."""

    def __init__(self, server: FastForward) -> None:
        self._iam = server.session().client("iam")
        self.wide = self.make({"Effect": "Allow", "Action": "*", "Resource": "*"})

    def make(self, *statements: dict[str, Any]) -> str:
        """Makes a role with these statements, or without a policy. Returns its ARN."""
        name = f"role-{uuid.uuid4().hex[:8]}"
        by = {"Effect": "Allow", "Principal": _TRUST, "Action": "sts:AssumeRole"}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [by]})
        arn = self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        if statements:
            self.write(arn, *statements)
        return str(arn)

    def write(self, arn: str, *statements: dict[str, Any]) -> None:
        policy = json.dumps({"Version": "2012-10-17", "Statement": [*statements]})
        self._iam.put_role_policy(RoleName=arn.rpartition("/")[2], PolicyName="p", PolicyDocument=policy)

    def without(self, action: str) -> str:
        """Makes a role that may do all but one action."""
        every = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        return self.make(every, {"Effect": "Deny", "Action": action, "Resource": "*"})


@dataclass(frozen=True)
class Story:
    """One run of a path. `role` is the one that acts; `wide` may do everything."""

    server: FastForward
    role: str
    wide: str

    @property
    def sagemaker(self) -> Any:
        return self.server._client("sagemaker", "us-east-1")

    def execution(self, *steps: dict[str, Any]) -> str:
        """Runs a pipeline with the role. Returns the reason of the step that failed, or an empty text."""
        name = f"pipe-{uuid.uuid4().hex[:8]}"
        self.sagemaker.create_pipeline(PipelineName=name, PipelineDefinition=definition(*steps), RoleArn=self.role)
        arn = self.sagemaker.start_pipeline_execution(PipelineName=name)["PipelineExecutionArn"]
        self.server.wait_execution(arn)
        found = self.server.steps(arn).values()
        return "\n".join(one["FailureReason"] for one in found if "FailureReason" in one)

    def training(self, **changes: Any) -> str:
        """Runs a training job with the role. Returns its FailureReason, or why it was refused."""
        body = training_body(f"t-{uuid.uuid4().hex[:8]}", self.role, **changes)
        try:
            self.sagemaker.create_training_job(**body)
        except ClientError as error:
            return str(error.response["Error"]["Message"])
        return str(self.server.wait(body["TrainingJobName"]).get("FailureReason", ""))

    def processing(self, **changes: Any) -> str:
        """Does the same with a processing job."""
        body = processing_request(f"p-{uuid.uuid4().hex[:8]}", RoleArn=self.role, **changes)
        self.sagemaker.create_processing_job(**body)
        return str(self.server.wait(body["ProcessingJobName"], kind="processing").get("FailureReason", ""))


@dataclass(frozen=True)
class Path:
    tell: Callable[[Story], str]
    #: All actions that the role needs for it.
    actions: tuple[str, ...]
    #: The types of steps that it runs.
    steps: tuple[str, ...] = ()


def training_body(name: str, role: str, **changes: Any) -> dict[str, Any]:
    output = {"OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"}}
    return request(name, RoleArn=role, **{**output, **changes})


def channel(mode: str = "File", kind: str = "S3Prefix", key: str = "data/") -> dict[str, Any]:
    source = {"S3DataType": kind, "S3Uri": f"s3://{BUCKET}/{key}"}
    return {"ChannelName": "train", "InputMode": mode, "DataSource": {"S3DataSource": source}}


def document(key: str) -> dict[str, Any]:
    return {"Std:JsonGet": {"S3Uri": f"s3://{BUCKET}/{key}", "Path": "$"}}


def put_document(story: Story, body: dict[str, Any]) -> dict[str, Any]:
    """Puts a body where a job's pipeline may read it. Returns the expression that yields it."""
    key = f"documents/{uuid.uuid4().hex[:8]}.json"
    story.server._client("s3", "us-east-1").put_object(Bucket=BUCKET, Key=key, Body=json.dumps(body).encode())
    return document(key)


def without_name(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if not name.endswith("JobName")}


def _training_step(story: Story, role: str) -> dict[str, Any]:
    return step("a", "Training", without_name(training_body("x", role)))


def _processing_arguments(role: str) -> dict[str, Any]:
    return without_name(processing_request("x", RoleArn=role))


def _definition(role: str, **changes: Any) -> dict[str, Any]:
    return tuning_definition(RoleArn=role, OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/out"}, **changes)


def _tuning_arguments(job: Any) -> dict[str, Any]:
    return without_name(tuning_request("x", job=job, ResourceLimits=_ONE))


_ONE = {"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1}


def _model(story: Story) -> str:
    image = {"Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/m:1"}
    return story.execution(step("a", "Model", {"PrimaryContainer": image, "ExecutionRoleArn": story.wide}))


def _register(story: Story) -> str:
    container = {"Image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/m:1", "ModelDataUrl": f"s3://{BUCKET}/m"}
    types = {"SupportedContentTypes": ["text/csv"], "SupportedResponseMIMETypes": ["text/csv"]}
    group = f"group-{uuid.uuid4().hex[:8]}"
    specification = {"Containers": [container], **types}
    return story.execution(
        step("a", "RegisterModel", {"ModelPackageGroupName": group, "InferenceSpecification": specification})
    )


def _callback(story: Story) -> str:
    queue = story.server._client("sqs", "us-east-1").create_queue(QueueName="asks")["QueueUrl"]
    reason = story.execution(step("a", "Callback", {"a": "b"}, SqsQueueUrl=queue))
    # In simulated time a message that was sent is never answered.
    return "" if reason.startswith("The callback was not answered") else reason


def _function(story: Story) -> str:
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{FUNCTION}"
    return story.execution(step("a", "Lambda", {}, FunctionArn=arn))


def _message(story: Story) -> str:
    reason = story.execution(fail("a", document("secret.json")))
    return "" if reason == "the secret" else reason


def _trial(story: Story) -> str:
    """A trial of a tuning job. Its data is looked for at the creation of the tuning job, too."""
    name = f"tune-{uuid.uuid4().hex[:8]}"
    definition = _definition(story.role, InputDataConfig=[channel()])
    try:
        story.sagemaker.create_hyper_parameter_tuning_job(**tuning_request(name, job=definition, ResourceLimits=_ONE))
    except ClientError as error:
        return str(error.response["Error"]["Message"])
    story.server.wait_tuning(name)
    (trial,) = story.server.trials(name)
    found = story.sagemaker.describe_training_job(TrainingJobName=trial["TrainingJobName"])
    return str(found.get("FailureReason", ""))


def _isolated(story: Story) -> str:
    where = {"sagemaker_submit_directory": f"s3://{BUCKET}/source.tar.gz"}
    return story.training(HyperParameters=where, EnableNetworkIsolation=True)


def _checkpoints(story: Story) -> str:
    place = f"checkpoints/{uuid.uuid4().hex[:8]}/"
    story.server._client("s3", "us-east-1").put_object(Bucket=BUCKET, Key=f"{place}old", Body=b"1")
    return story.training(CheckpointConfig={"S3Uri": f"s3://{BUCKET}/{place}"})


def _outputs(mode: str) -> Callable[[Story], str]:
    place = "/opt/ml/processing/out"

    def tell(story: Story) -> str:
        # What is there already is not uploaded again.
        target = f"s3://{BUCKET}/processed/{uuid.uuid4().hex[:8]}"
        return story.processing(ProcessingOutputConfig={"Outputs": [result("o", target, place, mode)]})

    return tell


_READS = ("s3:ListBucket", "s3:GetObject")
_PUT = "s3:PutObject"
_PLAIN = {"S3OutputPath": f"s3://{BUCKET}/out", "CompressionType": "NONE"}

PATHS: dict[str, Path] = {
    "Training step": Path(
        lambda one: one.execution(_training_step(one, one.wide)),
        ("sagemaker:CreateTrainingJob", "sagemaker:DescribeTrainingJob", "iam:PassRole"),
        ("Training",),
    ),
    "Processing step": Path(
        lambda one: one.execution(step("a", "Processing", _processing_arguments(one.wide))),
        ("sagemaker:CreateProcessingJob", "sagemaker:DescribeProcessingJob", "iam:PassRole"),
        ("Processing",),
    ),
    "Tuning step": Path(
        lambda one: one.execution(step("a", "Tuning", _tuning_arguments(_definition(one.wide)))),
        (
            "sagemaker:CreateHyperParameterTuningJob",
            "sagemaker:DescribeHyperParameterTuningJob",
            "sagemaker:ListTrainingJobsForHyperParameterTuningJob",
            "iam:PassRole",
        ),
        ("Tuning",),
    ),
    "Model step": Path(_model, ("sagemaker:CreateModel", "sagemaker:DescribeModel", "iam:PassRole"), ("Model",)),
    "RegisterModel step": Path(
        _register,
        ("sagemaker:CreateModelPackageGroup", "sagemaker:CreateModelPackage", "sagemaker:DescribeModelPackage"),
        ("RegisterModel",),
    ),
    "Callback step": Path(_callback, ("sqs:SendMessage",), ("Callback",)),
    "Lambda step": Path(_function, ("lambda:InvokeFunction",), ("Lambda",)),
    "message of a Fail step": Path(_message, ("s3:GetObject",), ("Fail",)),
    "arguments of a Training step from a document": Path(
        lambda one: one.execution(step("a", "Training", put_document(one, without_name(training_body("x", one.wide))))),
        ("s3:GetObject", "sagemaker:CreateTrainingJob", "sagemaker:DescribeTrainingJob", "iam:PassRole"),
    ),
    "arguments of a Processing step from a document": Path(
        lambda one: one.execution(step("a", "Processing", put_document(one, _processing_arguments(one.wide)))),
        ("s3:GetObject", "sagemaker:CreateProcessingJob", "sagemaker:DescribeProcessingJob", "iam:PassRole"),
    ),
    "definition in a Tuning step from a document": Path(
        lambda one: one.execution(step("a", "Tuning", _tuning_arguments(put_document(one, _definition(one.wide))))),
        (
            "s3:GetObject",
            "sagemaker:CreateHyperParameterTuningJob",
            "sagemaker:DescribeHyperParameterTuningJob",
            "sagemaker:ListTrainingJobsForHyperParameterTuningJob",
            "iam:PassRole",
        ),
    ),
    "File channel": Path(lambda one: one.training(InputDataConfig=[channel()]), (*_READS, _PUT)),
    "FastFile channel": Path(lambda one: one.training(InputDataConfig=[channel("FastFile")]), (*_READS, _PUT)),
    "Pipe channel": Path(lambda one: one.training(InputDataConfig=[channel("Pipe")]), (*_READS, _PUT)),
    "channel by a manifest": Path(
        lambda one: one.training(InputDataConfig=[channel(kind="ManifestFile", key="manifest.json")]),
        (*_READS, _PUT),
    ),
    "channel by an augmented manifest": Path(lambda one: one.training(InputDataConfig=[_augmented()]), (*_READS, _PUT)),
    "trial": Path(_trial, (*_READS, _PUT)),
    "source of an isolated job": Path(_isolated, ("s3:GetObject", _PUT)),
    "checkpoints": Path(_checkpoints, (*_READS, _PUT, "s3:DeleteObject")),
    "model.tar.gz": Path(lambda one: one.training(), (_PUT,)),
    "model as files": Path(lambda one: one.training(OutputDataConfig=_PLAIN), (_PUT,)),
    "input of a processing job": Path(
        lambda one: one.processing(ProcessingInputs=[given("i", f"s3://{BUCKET}/data/", "/opt/ml/processing/in")]),
        _READS,
    ),
    "outputs at the end of a processing job": Path(_outputs("EndOfJob"), (_PUT,)),
    "outputs while a processing job runs": Path(_outputs("Continuous"), ("s3:ListBucket", _PUT)),
}


def _augmented() -> dict[str, Any]:
    made = channel("Pipe", "AugmentedManifestFile", "augmented.jsonl")
    made["DataSource"]["S3DataSource"]["AttributeNames"] = ["source-ref"]
    return {**made, "RecordWrapperType": "RecordIO"}


def prepare(server: FastForward) -> None:
    """Puts the objects, the function and the programs that the stories need."""
    s3 = server.session().client("s3")
    s3.create_bucket(Bucket=BUCKET)
    manifest = [{"prefix": f"s3://{BUCKET}/data/"}, "a"]
    augmented = {"source-ref": f"s3://{BUCKET}/data/a"}
    for key, body in {
        "data/a": b"1",
        "secret.json": b'"the secret"',
        "manifest.json": json.dumps(manifest).encode(),
        "augmented.jsonl": json.dumps(augmented).encode() + b"\n",
        "source.tar.gz": _archive(),
    }.items():
        s3.put_object(Bucket=BUCKET, Key=key, Body=body)
    role = f"arn:aws:iam::123456789012:role/{execution_role.NAME}"
    server.session().client("lambda").create_function(
        FunctionName=FUNCTION, Runtime="python3.11", Role=role, Handler="f.h", Code={"ZipFile": zipped()}
    )
    server.train(_train)
    server.process(_process)


def _train(job: Job) -> None:
    (job.model_dir / "m").write_text("m")
    job.print("loss=1")
    if job.checkpoint_dir is not None:
        (job.checkpoint_dir / "old").unlink(missing_ok=True)
        (job.checkpoint_dir / "new").write_text("2")


def _process(job: ProcessingJob) -> None:
    for place in job.outputs.values():
        (place / "f").write_text("1")


def _archive() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.py")
        archive.addfile(member, io.BytesIO(b""))
    return out.getvalue()


def zipped(source: str = "def h(event, context): return event") -> bytes:
    """Returns the package of a function `f.h`."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("f.py", source)
    return code.getvalue()
