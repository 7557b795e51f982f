"""Random requests from a botocore shape: valid ones, and ones with one place broken."""

import copy
import random
from collections.abc import Iterator
from typing import Any

#: A value for each pattern that random letters would not fit.
_FITTING = {
    "RoleArn": "arn:aws:iam::123456789012:role/path/Name",
    "S3Uri": "s3://bucket/some/prefix",
    "FileSystemId": "fs-0123456789a",
    "DirectoryPath": "/data",
    "SequenceLength": "4K",
    "TrainingRepositoryCredentialsProviderArn": "arn:aws:lambda:us-east-1:123456789012:function:f",
    "TrainingPlanArn": "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p",
    "ModelPackageGroupArn": "arn:aws:sagemaker:us-east-1:123456789012:model-package-group/g",
    "ModelPackageArn": "arn:aws:sagemaker:us-east-1:123456789012:model-package/m",
    "MlFlowResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:mlflow-app/x",
    "HubDataSetArn": "arn:aws:sagemaker:us-east-1:123456789012:hub-content/hub/DataSet/data/1.0.0",
    "ServerlessJobBaseModelArn": "arn:aws:sagemaker:us-east-1:123456789012:hub-content/hub/Model/m/1.0.0",
    "EvaluatorArn": "arn:aws:lambda:us-east-1:123456789012:function:f",
}
#: No null: botocore refuses it everywhere, AWS takes it for an absent member.
_JUNK: list[Any] = [True, 1, -1, 1.5, "", "x" * 5000, [], {}, [None], {"Unknown": 1}, [[1]]]


class RequestMaker:
    def __init__(self, source: random.Random) -> None:
        self._random = source

    def make(self, shape: Any, depth: int = 0) -> Any:
        """A value that satisfies every constraint of the shape."""
        if shape.type_name == "structure":
            chosen = {
                n for n in shape.members if n in shape.required_members or self._random.random() < 0.5 / (depth + 1)
            }
            return {name: self.make(shape.members[name], depth + 1) for name in shape.members if name in chosen}
        if shape.type_name == "list":
            return [self.make(shape.member, depth + 1) for _ in range(self._size(shape, 3))]
        if shape.type_name == "map":
            return {f"{self.make(shape.key)}{n}": self.make(shape.value) for n in range(self._size(shape, 3))}
        if shape.type_name == "string":
            return self._text(shape)
        if shape.type_name == "boolean":
            return self._random.random() < 0.5
        low = shape.metadata.get("min", 0)
        return self._random.randint(int(low), int(min(shape.metadata.get("max", low + 1000), low + 1000)))

    def broken(self, request: dict[str, Any]) -> dict[str, Any]:
        """A copy with one random place replaced by junk, or gone."""
        return self.break_one(request)[0]

    def break_one(self, request: dict[str, Any]) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """As `broken`, and the path of the place: names, keys and indices."""
        result = copy.deepcopy(request)
        path, holder = self._random.choice(list(_places(result, ())))
        if self._random.random() < 0.2:
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(self._random.choice(_JUNK))
        return result, path

    def _text(self, shape: Any) -> str:
        if shape.enum:
            return str(self._random.choice(shape.enum))
        if shape.name in _FITTING:
            return _FITTING[shape.name]
        return "".join(self._random.choices("abcXYZ", k=self._size(shape, 12)))

    def _size(self, shape: Any, most: int) -> int:
        low = max(shape.metadata.get("min", 0), 1 if shape.metadata.get("pattern", "").find("+") >= 0 else 0)
        low = max(low, 1) if shape.type_name == "string" else low
        return self._random.randint(low, max(low, min(most, shape.metadata.get("max", most))))


def acceptable(request: dict[str, Any]) -> dict[str, Any]:
    """The request with what the model cannot say put right: what one member demands of another."""
    body = {name: value for name, value in copy.deepcopy(request).items() if name != "ServerlessJobConfig"}
    algorithm = body.setdefault("AlgorithmSpecification", {})
    algorithm.pop("AlgorithmName", None)
    algorithm.update(TrainingImage="no-such-image", TrainingInputMode="File")
    resources = body.setdefault("ResourceConfig", {})
    resources.pop("InstanceGroups", None)
    resources.update(InstanceType=resources.get("InstanceType", "ml.m5.large"), InstanceCount=1)
    limits = body.setdefault("StoppingCondition", {})
    limits.pop("MaxWaitTimeInSeconds", None)
    if body.get("EnableManagedSpotTraining"):
        limits["MaxWaitTimeInSeconds"] = limits.get("MaxRuntimeInSeconds", 86_400) + 1
        resources.pop("KeepAlivePeriodInSeconds", None)
    for number, channel in enumerate(body.get("InputDataConfig", [])):
        channel.update(ChannelName=f"{channel['ChannelName'][:50]}-{number}")
        channel.pop("InputMode", None)
        source = {"S3DataType": "S3Prefix", "S3Uri": _FITTING["S3Uri"]}
        channel["DataSource"] = {"S3DataSource": {**channel["DataSource"].get("S3DataSource", {}), **source}}
        for member in ("InstanceGroupNames", "AttributeNames"):
            channel["DataSource"]["S3DataSource"].pop(member, None)
    if "CheckpointConfig" in body:
        body["CheckpointConfig"].pop("LocalPath", None)
    if "ProfilerConfig" in body:
        body["ProfilerConfig"].pop("ProfilingIntervalInMilliseconds", None)
    for number, tag in enumerate(body.get("Tags", [])):
        tag["Key"] = f"{tag['Key'][:100]}{number}"
    return body


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The path of every place in the value, and what holds it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield (*path, key), value
        if isinstance(item, (dict, list)):
            yield from _places(item, (*path, key))
