"""Rules of the Debugger and the Profiler: nothing evaluates them, and Describe says so where clients look."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.world import request

KINDS = ["Debug", "Profiler"]


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as world:
        yield world


def create(world: ApiWorld, kind: str) -> None:
    rules = [
        {"RuleConfigurationName": name, "RuleEvaluatorImage": "503895931360.dkr.ecr.us-east-1.amazonaws.com/rules"}
        for name in ("LossNotDecreasing", "Overfit")
    ]
    world.sagemaker.create_training_job(**request("one", **{f"{kind}RuleConfigurations": rules}))


def described(world: ApiWorld) -> dict[str, Any]:
    answer: dict[str, Any] = world.sagemaker.describe_training_job(TrainingJobName="one")
    return answer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("exit_code", "end"), [(0, "NoIssuesFound"), (1, "Stopped")])
def test_each_rule_has_an_evaluation_that_ends_with_the_job(
    world: ApiWorld, kind: str, exit_code: int, end: str
) -> None:
    create(world, kind)
    member = f"{kind}RuleEvaluationStatuses"
    host = world.host("one")
    running = described(world)
    assert [one["RuleConfigurationName"] for one in running[member]] == ["LossNotDecreasing", "Overfit"]
    assert {one["RuleEvaluationStatus"] for one in running[member]} == {"InProgress"}
    assert running[member][0]["LastModifiedTime"] == running["CreationTime"]
    world.clock.turn(5)
    host.end(exit_code)
    world.ended("one")
    over = described(world)
    for one in over[member]:
        assert one["RuleEvaluationStatus"] == end
        assert one["LastModifiedTime"] == over["TrainingEndTime"]
        assert one["StatusDetails"] == "sagelet does not run rules: nobody looked for issues"
        assert "RuleEvaluationJobArn" not in one


def test_without_rules_there_are_no_evaluations(world: ApiWorld) -> None:
    world.sagemaker.create_training_job(**request("one"))
    assert not {f"{kind}RuleEvaluationStatuses" for kind in KINDS} & described(world).keys()
