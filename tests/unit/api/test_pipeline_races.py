"""Requests about a pipeline at the same moment, and while its steps begin."""

import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.pipelines.steps import KINDS
from support.api_world import ApiWorld
from support.pipelines import ROLE, compare, condition, definition, fail, step
from support.world import until

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:1.13.1-cpu-py39"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def token() -> str:
    return uuid.uuid4().hex


def create(world: ApiWorld, text: str) -> None:
    asked = {"PipelineName": "Pipe", "PipelineDefinition": text, "RoleArn": ROLE, "ClientRequestToken": token()}
    world.sagemaker.create_pipeline(**asked)


def start(world: ApiWorld, request_token: str | None = None) -> str:
    asked = {"PipelineName": "Pipe", "ClientRequestToken": request_token or token()}
    return str(world.sagemaker.start_pipeline_execution(**asked)["PipelineExecutionArn"])


def ended(world: ApiWorld, arn: str) -> str:
    def status() -> str:
        return str(world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)["PipelineExecutionStatus"])

    until(lambda: status() in ("Succeeded", "Failed", "Stopped"))
    return status()


def reason(world: ApiWorld, arn: str) -> list[str]:
    listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
    return [one.get("FailureReason", "") for one in listed]


def register(name: str, group: str) -> dict[str, Any]:
    containers = [{"Image": IMAGE, "ModelDataUrl": "s3://b/model.tar.gz"}]
    inference = {
        "Containers": containers,
        "SupportedContentTypes": ["text/csv"],
        "SupportedResponseMIMETypes": ["text/csv"],
    }
    return step(name, "RegisterModel", {"ModelPackageGroupName": group, "InferenceSpecification": inference})


def after_start(monkeypatch: pytest.MonkeyPatch, kind: str, then: Callable[[str], None]) -> None:
    """Calls `then` with what a step of this type made, before the orchestrator has recorded it."""
    owner = type(KINDS[kind])
    whole = owner.start

    def started(*arguments: Any) -> str:
        made = str(whole(*arguments))
        then(made)
        return made

    monkeypatch.setattr(owner, "start", started)


@pytest.mark.parametrize("request_name", ["update", "stop"])
def test_a_step_that_begins_during_a_request_begins_once(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    group = f"g-{token()[:8]}"
    create(world, definition(register("R", group)))
    arns: list[str] = []

    def meanwhile(_made: str) -> None:
        until(lambda: arns)
        if request_name == "stop":
            world.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arns[0], ClientRequestToken=token())
        else:
            asked = {"PipelineExecutionArn": arns[0], "PipelineExecutionDescription": token()}
            world.sagemaker.update_pipeline_execution(**asked)

    after_start(monkeypatch, "RegisterModel", meanwhile)
    arns.append(start(world))
    assert (ended(world, arns[0]), reason(world, arns[0])) == (
        "Stopped" if request_name == "stop" else "Succeeded",
        [""],
    )
    packages = world.sagemaker.list_model_packages(ModelPackageGroupName=group)["ModelPackageSummaryList"]
    assert len(packages) == 1


@pytest.mark.parametrize("kind", ["Model", "RegisterModel"])
def test_what_was_made_before_a_crash_is_not_made_twice(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A server that is killed between the call and its record repeats the call."""
    container = {"Image": IMAGE, "ModelDataUrl": "s3://b/model.tar.gz"}
    model = step("S", "Model", {"ExecutionRoleArn": ROLE, "PrimaryContainer": container})
    group = f"g-{token()[:8]}"
    create(world, definition(model if kind == "Model" else register("S", group)))
    owner, made = type(KINDS[kind]), []
    whole = owner.start

    def twice(*arguments: Any) -> str:
        made.extend(str(whole(*arguments)) for _ in range(2))
        return made[-1]

    monkeypatch.setattr(owner, "start", twice)
    arn = start(world)
    assert (ended(world, arn), reason(world, arn)) == ("Succeeded", [""])
    assert made[0] == made[1]
    sagemaker = world.sagemaker
    if kind == "Model":
        assert [one["ModelName"] for one in sagemaker.list_models()["Models"]] == made[:1]
    else:
        packages = sagemaker.list_model_packages(ModelPackageGroupName=group)["ModelPackageSummaryList"]
        assert [one["ModelPackageArn"] for one in packages] == made[:1]


def test_a_group_that_a_step_makes_has_the_tags_of_the_step(world: ApiWorld) -> None:
    """As on AWS (SDK v2, Model.register): a group that is there keeps its own."""
    tags = [{"Key": "team", "Value": "ads"}]
    first, second = register("R", "g"), register("S", "g")
    first["Arguments"]["Tags"] = tags
    second["Arguments"]["Tags"] = [{"Key": "other", "Value": "x"}]
    create(world, definition(first, {**second, "DependsOn": ["R"]}))
    assert ended(world, start(world)) == "Succeeded"
    group = world.sagemaker.describe_model_package_group(ModelPackageGroupName="g")["ModelPackageGroupArn"]
    assert world.sagemaker.list_tags(ResourceArn=group)["Tags"] == tags


def test_an_execution_does_not_begin_after_its_pipeline_was_deleted(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, definition(fail("F", "x")))
    pipelines = world.engine.pipelines
    whole = type(pipelines).start

    def late(*arguments: Any) -> Any:
        world.sagemaker.delete_pipeline(PipelineName="Pipe", ClientRequestToken=token())
        return whole(*arguments)

    monkeypatch.setattr(type(pipelines), "start", late)
    with pytest.raises(ClientError) as refused:
        start(world)
    assert refused.value.response["Error"]["Code"] == "ResourceNotFound"
    assert world.engine._store.orchestrations.unfinished() == []


def test_two_starts_with_one_token_are_one_execution(world: ApiWorld) -> None:
    create(world, definition(fail("F", "x")))
    same = token()
    with ThreadPoolExecutor(8) as threads:
        arns = set(threads.map(lambda _: start(world, same), range(16)))
    assert len(arns) == 1
    listed = world.sagemaker.list_pipeline_executions(PipelineName="Pipe")["PipelineExecutionSummaries"]
    assert [one["PipelineExecutionArn"] for one in listed] == [*arns]


def test_all_requests_at_once_have_answers_of_aws_and_leave_nothing_behind(world: ApiWorld) -> None:
    check = condition("C", [compare("Equals", 1, 1)], [register("R", f"g-{token()[:8]}")])
    text = definition(check, fail("F", "x", DependsOn=["R"]))
    arns: list[str] = []
    codes: Counter[str] = Counter()

    def one(seed: int) -> None:
        chance = random.Random(seed)
        arn = chance.choice(arns) if arns else "arn:aws:sagemaker:us-east-1:123456789012:pipeline/pipe/execution/none"
        calls: list[Callable[[], Any]] = [
            lambda: create(world, text),
            lambda: arns.append(start(world)),
            lambda: arns.append(start(world)),
            lambda: world.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken=token()),
            lambda: world.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken=token()),
            lambda: world.sagemaker.update_pipeline(PipelineName="Pipe", PipelineDefinition=text),
            lambda: world.sagemaker.update_pipeline_execution(
                PipelineExecutionArn=arn, PipelineExecutionDescription=token()
            ),
            lambda: world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn),
            lambda: world.sagemaker.delete_pipeline(PipelineName="Pipe", ClientRequestToken=token()),
        ]
        try:
            chance.choice(calls)()
            codes["ok"] += 1
        except ClientError as error:
            codes[error.response["Error"]["Code"]] += 1

    create(world, text)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(one, range(80)))
    assert codes.keys() <= {"ok", "ResourceNotFound", "ConflictException", "ValidationException"}, codes
    assert until(lambda: not world.engine._store.orchestrations.unfinished())
    pipelines = {one["PipelineName"] for one in world.sagemaker.list_pipelines()["PipelineSummaries"]}
    left = world.engine.pipelines._kept.every("123456789012", "us-east-1")
    assert {one.pipeline for one in left} <= pipelines
