"""CreateTrainingJob bodies made from the service model, through boto3 and a real server.

SAGELET_TEST_BODIES bodies of each kind; a run that finds something prints the seed that repeats it (SAGELET_TEST_SEED).
"""

import copy
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel

from sagelet.engine import Engine
from sagelet_api.services.moto_bridge import MotoBridge
from sagelet_api.services.training_view import CHANNEL_DEFAULTS, OUTPUT_DEFAULTS
from support.api_world import ApiWorld
from support.generated import RequestMaker, acceptable

BODIES = int(os.environ.get("SAGELET_TEST_BODIES", "300"))
SEED = int(os.environ.get("SAGELET_TEST_SEED", "2026"))
#: The codes of AWS's answers to a body that is wrong.
REFUSALS = ("ValidationException", "SerializationException", "ResourceLimitExceeded")


class Unstarted(ApiWorld):
    """Jobs are accepted and never run: these tests are about what is accepted."""

    def boot(self) -> Engine:
        return self.unstarted()


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[Unstarted]:
    with Unstarted(tmp_path, bridge) as running:
        running.objects.put("bucket", "some/prefix/data", b"1")
        yield running


@pytest.fixture(scope="module")
def shape() -> Any:
    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"))
    return model.operation_model("CreateTrainingJob").input_shape


def bodies(shape: Any, maker: RequestMaker) -> Iterator[dict[str, Any]]:
    for number in range(BODIES):
        yield {**acceptable(maker.make(shape)), "TrainingJobName": f"job-{number}"}


def echoed(world: ApiWorld, body: dict[str, Any]) -> dict[str, Any]:
    """What Describe shows of the body's members; members that it fills in are taken out where the body lacks them."""
    answer = world.sagemaker.describe_training_job(TrainingJobName=body["TrainingJobName"])
    shown = {name: answer.get(name) for name in described(body) if name != "Tags"}
    _leave_out(shown["OutputDataConfig"], body["OutputDataConfig"], OUTPUT_DEFAULTS)
    for mine, sent in zip(shown.get("InputDataConfig") or [], body.get("InputDataConfig", []), strict=True):
        _leave_out(mine, sent, CHANNEL_DEFAULTS)
    if "Tags" in body:
        tags = world.sagemaker.list_tags(ResourceArn=answer["TrainingJobArn"])["Tags"]
        shown["Tags"] = sorted(tags, key=lambda tag: [each["Key"] for each in body["Tags"]].index(tag["Key"]))
    return shown


def _leave_out(shown: dict[str, Any], sent: dict[str, Any], defaults: dict[str, Any]) -> None:
    for name, value in defaults.items():
        if name not in sent:
            assert shown.pop(name) == value


#: Members of the request that DescribeTrainingJob's shape does not have: botocore drops them from the answer.
NOT_DESCRIBED = {"SessionChainingConfig"}


def test_what_describe_lacks_is_known(shape: Any) -> None:
    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"))
    described = model.operation_model("DescribeTrainingJob").output_shape.members
    assert set(shape.members) - set(described) - {"Tags"} == NOT_DESCRIBED


def test_valid_bodies_are_accepted_and_echoed(world: Unstarted, shape: Any) -> None:
    for body in bodies(shape, RequestMaker(random.Random(SEED))):
        world.sagemaker.create_training_job(**copy.deepcopy(body))
        assert echoed(world, body) == described(body), f"seed {SEED}"


def test_broken_bodies_are_refused_by_name_or_echoed(world: Unstarted, shape: Any) -> None:
    maker = RequestMaker(random.Random(SEED))
    refused = 0
    for body in bodies(shape, maker):
        broken, path = maker.break_one(body)
        status, answer = world.post("CreateTrainingJob", broken)
        if status == 200:
            assert echoed(world, broken) == described(broken), f"seed {SEED}"
            continue
        refused += 1
        where = f"seed {SEED}, {path}: {answer}"
        assert (status, answer["__type"] in REFUSALS) == (400, True), where
        # The protocol's own error for a wrong JSON type has no path (wire_types.py).
        assert answer["__type"] == "SerializationException" or named(path, body, answer["message"]), where
    assert refused > BODIES / 3


def described(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in NOT_DESCRIBED}


def named(path: tuple[Any, ...], body: dict[str, Any], message: str) -> bool:
    """Whether an error names a member on the way to the place, or one that was lost with it."""
    lost: Any = body
    for part in path:
        lost = lost[part]
    members = {str(part) for part in (*path, *(lost if isinstance(lost, dict) else ()))}
    return any(member.lower() in message.lower() for member in members if not member.isdigit())
