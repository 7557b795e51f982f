"""Writes the request with the SageMaker SDK v3, whose resource TrainingJob takes every member of the service model."""

import re
from collections.abc import Mapping
from typing import Any

from sagelet_api.protocol.validation import rule_book
from sagelet_api.web.snippets.python import call, literal


def sdk_v3_code(request: Mapping[str, Any], region: str) -> str:
    shape = rule_book("sagemaker").shape("CreateTrainingJobRequest")
    used: set[str] = set()
    arguments = {snake(name): _value(shape.members[name], value, "    ", used) for name, value in request.items()} | {
        "region": literal(region)
    }
    shapes = ", ".join(sorted(used))
    return (
        "from sagemaker.core.resources import TrainingJob\n"
        f"from sagemaker.core.shapes import {shapes}\n\n"
        "# Run it with `sagelet run -- python ...`; otherwise it goes to AWS.\n"
        f"job = {call('TrainingJob.create', arguments)}\n"
        "job.wait(logs=True)\n"
    )


def _value(shape: Any, value: Any, indent: str, used: set[str]) -> str:
    """Returns a value of a shape of botocore's as source. `used` collects the names of the classes in it."""
    inner = f"{indent}    "
    if shape.name == "Tag":
        # The SDK has two classes of this name and takes only one of them. It takes a dict for either.
        return literal({snake(name): one for name, one in value.items()})
    if shape.type_name == "structure":
        used.add(shape.name)
        members = {snake(name): _value(shape.members[name], one, inner, used) for name, one in value.items()}
        return call(shape.name, members, indent)
    if shape.type_name == "list" and shape.member.type_name == "structure":
        items = "".join(f"{inner}{_value(shape.member, one, inner, used)},\n" for one in value)
        return f"[\n{items}{indent}]"
    return literal(value, indent)


def snake(name: str) -> str:
    """Returns a member's name in the SDK: `S3Uri` is `s3_uri`, `KmsKeyId` is `kms_key_id`."""
    apart = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", apart).lower()
