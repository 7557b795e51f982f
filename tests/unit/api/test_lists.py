"""What all lists share: their order, what a page is cut from, and tokens that continue their own list only."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.protocol.operations import RefusedOperation
from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.pipelines import ROLE, definition, fail
from support.tuning_world import create as create_tuning
from support.world import request

#: sagelet's own lists, and the parameters that each needs. `pipe`: a pipeline, `execution`: the ARN of its execution.
LISTS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("sagemaker", "ListTrainingJobs"): {},
    ("sagemaker", "ListProcessingJobs"): {},
    ("sagemaker", "ListHyperParameterTuningJobs"): {},
    ("sagemaker", "ListTrainingJobsForHyperParameterTuningJob"): {"HyperParameterTuningJobName": "Tune"},
    ("sagemaker", "Search"): {"Resource": "TrainingJob"},
    ("sagemaker", "ListPipelines"): {},
    ("sagemaker", "ListPipelineVersions"): {"PipelineName": "pipe"},
    ("sagemaker", "ListPipelineExecutions"): {"PipelineName": "pipe"},
    ("sagemaker", "ListPipelineExecutionSteps"): {"PipelineExecutionArn": "execution"},
    ("sagemaker", "ListPipelineParametersForExecution"): {"PipelineExecutionArn": "execution"},
    ("sagemaker", "ListModels"): {},
    ("sagemaker", "ListModelPackageGroups"): {},
    ("sagemaker", "ListModelPackages"): {},
    ("logs", "DescribeLogGroups"): {},
    ("logs", "DescribeLogStreams"): {"logGroupName": "/aws/sagemaker/TrainingJobs"},
    ("logs", "FilterLogEvents"): {"logGroupName": "/aws/sagemaker/TrainingJobs"},
}
#: Tokens that are places in a stream, and no pages of a list.
PLACES = {("logs", "GetLogEvents")}
#: Lists that have one page.
ONE_PAGE = {("sagemaker", "ListTags"), ("logs", "DescribeSubscriptionFilters")}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def call(world: ApiWorld, service: str, operation: str, region: str = "us-east-1", **parameters: Any) -> dict[str, Any]:
    client = world.client(service, region)
    method = {made: name for name, made in client.meta.method_to_api_mapping.items()}[operation]
    answer: dict[str, Any] = getattr(client, method)(**parameters)
    return answer


def refusal(world: ApiWorld, *which: str, **parameters: Any) -> str:
    """Returns the code of the error, or an empty string if the call is answered."""
    try:
        call(world, *which, **parameters)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def members(service: str, operation: str) -> set[str]:
    return set(rule_book(service).input_shape(operation).members)


def names(answer: Mapping[str, Any]) -> list[str]:
    return [one["TrainingJobName"] for one in answer["TrainingJobSummaries"]]


@pytest.fixture
def filled(world: ApiWorld) -> Mapping[str, str]:
    """Makes two of everything that is listed. Returns what LISTS needs."""
    for number in (1, 2):
        world.sagemaker.create_training_job(**request(f"job-{number}"))
        world.host(f"job-{number}").say("one", "two")
        world.sagemaker.create_pipeline(
            PipelineName=f"pipe-{number}", RoleArn=ROLE, ClientRequestToken=f"{number}" * 32,
            PipelineDefinition=definition(fail("Ends", "over"), fail("Ends2", "over")),
        )  # fmt: skip
        create_tuning(world, f"Tune{number}")
        world.sagemaker.create_model(ModelName=f"model-{number}", ExecutionRoleArn=ROLE)
        world.sagemaker.create_model_package_group(ModelPackageGroupName=f"group-{number}")
        world.sagemaker.create_model_package(ModelPackageName=f"package-{number}")
        world.client("logs").create_log_group(logGroupName=f"own-{number}")
    starts = [
        world.sagemaker.start_pipeline_execution(PipelineName="pipe-1", ClientRequestToken=f"{number}" * 32)
        for number in (1, 2)
    ]
    return {"pipe": "pipe-1", "execution": starts[0]["PipelineExecutionArn"], "Tune": "Tune1"}


def test_every_own_list_is_here(world: ApiWorld) -> None:
    own = {
        (service, operation)
        for service in ("sagemaker", "logs")
        for operation, handler in world.sagelet.own.tables[service].items()
        if not isinstance(handler, RefusedOperation) and {"NextToken", "nextToken"} & members(service, operation)
    }
    assert own - PLACES - ONE_PAGE == LISTS.keys()


def test_a_token_continues_its_own_list_only(world: ApiWorld, filled: Mapping[str, str]) -> None:
    given = {key: {name: filled.get(value, value) for name, value in needs.items()} for key, needs in LISTS.items()}
    tokens = {}
    for (service, operation), needs in given.items():
        limit = "limit" if service == "logs" else "MaxResults"
        answer = call(world, service, operation, **needs, **{limit: 1})
        token = answer.get("NextToken") or answer.get("nextToken")
        if token:
            tokens[service, operation] = token
    assert len(tokens) >= 11, tokens.keys()
    wrong = []
    for source, token in tokens.items():
        for (service, operation), needs in given.items():
            for region in ("us-east-1", "eu-west-1"):
                if (service, operation, region) == (*source, "us-east-1") or (region != "us-east-1" and needs):
                    continue
                member = "nextToken" if service == "logs" else "NextToken"
                code = refusal(world, service, operation, region, **needs, **{member: token})
                if code not in ("ValidationException", "InvalidParameterException"):
                    wrong.append((source, service, operation, region, code))
    assert wrong == []


def test_a_page_is_cut_before_its_status_is_looked_at(world: ApiWorld) -> None:
    for name in ("a", "b", "c"):
        world.sagemaker.create_training_job(**request(name))
        world.host(name)
        world.clock.turn(1)
    world.host("a").end(1)
    world.ended("a")
    ask = world.sagemaker.list_training_jobs
    first = ask(StatusEquals="Failed", MaxResults=2)
    assert names(first) == []
    assert names(ask(StatusEquals="Failed", MaxResults=2, NextToken=first["NextToken"])) == ["a"]
    assert names(ask(StatusEquals="Failed")) == ["a"]
    pages = world.sagemaker.get_paginator("list_training_jobs").paginate(
        StatusEquals="InProgress", PaginationConfig={"PageSize": 1}
    )
    assert [name for page in pages for name in names(page)] == ["c", "b"]
