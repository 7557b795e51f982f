"""A world with one of everything, and a request of each of sagelet's own operations of SageMaker that is answered."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sagelet_api.protocol.operations import RefusedOperation
from sagelet_api.protocol.validation import rule_book
from support.api_world import ACCOUNT, ApiWorld
from support.pipelines import ROLE, definition, fail, step
from support.processing import processing_request
from support.tuning import tuning_request
from support.world import request, until

ARN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:1.13.1-cpu-py39"
SPECIFICATION = {"Containers": [{"Image": IMAGE}], "SupportedContentTypes": ["text/csv"]}
TAGS = [{"Key": "team", "Value": "ads"}]
#: Kinds of resources with tags, by their word in ARNs, and the operation that makes one. The name is `it`.
KINDS: Mapping[str, str] = {
    "training-job": "CreateTrainingJob",
    "processing-job": "CreateProcessingJob",
    "hyper-parameter-tuning-job": "CreateHyperParameterTuningJob",
    "pipeline": "CreatePipeline",
    "model": "CreateModel",
    "model-package": "CreateModelPackage",
    "model-package-group": "CreateModelPackageGroup",
}


def token() -> str:
    return uuid.uuid4().hex


def own_operations(world: ApiWorld) -> set[str]:
    table = world.sagelet.own.tables["sagemaker"]
    return {name for name, one in table.items() if not isinstance(one, RefusedOperation)}


def creation(operation: str, name: str, **more: Any) -> dict[str, Any]:
    """Returns a body that makes one of a kind."""
    made: Mapping[str, Callable[[], dict[str, Any]]] = {
        "CreateTrainingJob": lambda: request(name),
        "CreateProcessingJob": lambda: processing_request(name),
        "CreateHyperParameterTuningJob": lambda: tuning_request(name),
        "CreatePipeline": lambda: {
            "PipelineName": name, "RoleArn": ROLE, "ClientRequestToken": token(),
            "PipelineDefinition": definition(fail("Ends", "over")),
        },
        "CreateModel": lambda: {"ModelName": name, "ExecutionRoleArn": ROLE, "PrimaryContainer": {"Image": IMAGE}},
        "CreateModelPackage": lambda: {"ModelPackageName": name, "InferenceSpecification": SPECIFICATION},
        "CreateModelPackageGroup": lambda: {"ModelPackageGroupName": name},
    }  # fmt: skip
    return {**made[operation](), **more}


class Everything:
    """One of each kind with the name `it`, a version of a package, an ended execution, and one that waits."""

    def __init__(self, world: ApiWorld) -> None:
        self.world = world
        world.objects.put("b", "k", b"1")
        for operation in KINDS.values():
            self.do(operation, creation(operation, "it", Tags=TAGS))
        world.host("it")
        self.do("CreateModelPackageGroup", {"ModelPackageGroupName": "group"})
        self.version = self.package()
        self.execution = self.start()
        until(lambda: self.status() == "Failed")
        self.callback = ""

    def do(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        status, answer = self.world.call(operation, dict(body))
        assert status == 200, (operation, body, answer)
        return answer

    def package(self) -> str:
        body = {"ModelPackageGroupName": "group", "InferenceSpecification": SPECIFICATION}
        return str(self.do("CreateModelPackage", body)["ModelPackageArn"])

    def start(self, pipeline: str = "it") -> str:
        asked = {"PipelineName": pipeline, "ClientRequestToken": token()}
        return str(self.do("StartPipelineExecution", asked)["PipelineExecutionArn"])

    def waiting(self) -> tuple[str, str]:
        """Starts an execution that waits for a callback. Returns its ARN and the callback's token."""
        name = f"waits-{token()[:8]}"
        queue = self.world.client("sqs").create_queue(QueueName=name)["QueueUrl"]
        wanted = [{"OutputName": "answer", "OutputType": "String"}]
        ask = step("ask", "Callback", {"question": "why"}, SqsQueueUrl=queue, OutputParameters=wanted)
        self.do("CreatePipeline", creation("CreatePipeline", name, PipelineDefinition=definition(ask)))
        arn = self.start(name)
        until(lambda: self._callback(arn))
        return arn, self._callback(arn)

    def _callback(self, arn: str) -> str:
        steps = self.do("ListPipelineExecutionSteps", {"PipelineExecutionArn": arn})["PipelineExecutionSteps"]
        return str(steps[0]["Metadata"].get("Callback", {}).get("CallbackToken", "")) if steps else ""

    def status(self, arn: str = "") -> str:
        asked = {"PipelineExecutionArn": arn or self.execution}
        return str(self.do("DescribePipelineExecution", asked)["PipelineExecutionStatus"])

    def asked(self, operation: str) -> dict[str, Any]:
        """Returns a body that is answered, with what every kind of resource is called here."""
        if operation in KINDS.values():
            return creation(operation, f"new-{token()[:12]}")
        return {**self.named(operation), **_MORE.get(operation, {})}

    def named(self, operation: str) -> dict[str, Any]:
        """Returns the members that name what is asked about. A deletion finds nothing: others need what is here."""
        names: Mapping[str, Any] = {
            "TrainingJobName": "it", "ProcessingJobName": "it", "HyperParameterTuningJobName": "it",
            "PipelineName": "it", "PipelineArn": f"{ARN}pipeline/it", "PipelineExecutionArn": self.execution,
            "ModelName": "it", "ModelPackageName": self.version, "ModelPackageArn": self.version,
            "ModelPackageGroupName": "group", "ResourceArn": f"{ARN}training-job/it", "Resource": "TrainingJob",
            "ClientRequestToken": token(), "CallbackToken": self.callback,
        }  # fmt: skip
        members = rule_book("sagemaker").input_shape(operation).members
        if operation.startswith("Delete") and operation != "DeleteTags":
            names = {
                **dict.fromkeys(names, "none"),
                "ModelPackageArn": f"{ARN}model-package/none",
                "ClientRequestToken": token(),
            }
        return {name: names[name] for name in members if name in names}


#: What a request needs beside names and a token.
_MORE: Mapping[str, Mapping[str, Any]] = {
    "AddTags": {"Tags": TAGS},
    "DeleteTags": {"TagKeys": ["none"]},
    "UpdatePipeline": {"PipelineDescription": "new"},
    "UpdatePipelineVersion": {"PipelineVersionId": 1, "PipelineVersionDescription": "new"},
    "SendPipelineExecutionStepSuccess": {"OutputParameters": [{"Name": "answer", "Value": "42"}]},
    "SendPipelineExecutionStepFailure": {"FailureReason": "no"},
}


def optional_members(shape: Any, body: Mapping[str, Any], depth: int = 4) -> Iterator[tuple[str | int, ...]]:
    """Yields the paths of all members in a body that the model calls optional."""
    for name, value in body.items():
        member = shape.members[name]
        if name not in shape.required_members:
            yield (name,)
        if depth:
            yield from ((name, *rest) for rest in _below(member, value, depth - 1))


def _below(shape: Any, value: Any, depth: int) -> Iterator[tuple[str | int, ...]]:
    if shape.type_name == "structure":
        yield from optional_members(shape, value, depth)
    elif shape.type_name == "list" and shape.member.type_name in ("structure", "list"):
        for place, one in enumerate(value):
            yield from ((place, *rest) for rest in _below(shape.member, one, depth))


def without(body: Any, path: tuple[str | int, ...]) -> Any:
    """Returns a body without the member at a path."""
    first, *rest = path
    if isinstance(body, list):
        return [without(one, tuple(rest)) if place == first else one for place, one in enumerate(body)]
    if not rest:
        return {name: value for name, value in body.items() if name != first}
    return {name: without(value, tuple(rest)) if name == first else value for name, value in body.items()}


def filled(shape: Any, known: Mapping[str, Any], name: str = "", depth: int = 5) -> Any:
    """Returns a value of a shape with all of its members, also optional ones. `known`: values by a member's name."""
    kind = shape.type_name
    if name in known and (kind != "structure" or known[name].keys() <= shape.members.keys()):
        return known[name]
    if kind == "structure":
        return {
            one: filled(member, known, one, depth - 1)
            for one, member in shape.members.items()
            if depth or one in shape.required_members
        }
    if kind == "list":
        return [filled(shape.member, known, name.removesuffix("s"), depth - 1)]
    if kind == "map":
        return {filled(shape.key, known): filled(shape.value, known, "", depth - 1)}
    if kind == "string":
        return shape.enum[0] if shape.enum else _TEXTS.get(shape.name, "a" * max(shape.metadata.get("min", 1), 1))
    return {"boolean": True, "timestamp": 1_700_000_000, "float": 1.0, "double": 1.0}.get(
        kind, max(shape.metadata.get("min", 1), 1)
    )


#: Texts of shapes with a pattern.
_TEXTS: Mapping[str, str] = {
    "RoleArn": ROLE, "S3Uri": "s3://b/k", "ContainerImage": IMAGE, "Url": "s3://b/model.tar.gz", "NextToken": "bad",
    "S3OutputPath": "s3://b/out", "PaginationToken": "bad",
}  # fmt: skip
