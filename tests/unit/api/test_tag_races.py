"""Tags of what is deleted at the same moment: the answer is the one of a resource that does not exist."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.facets import JobsOf
from sagelet_engine.orchestration.facet import Orchestrations
from sagelet_engine.pipelines.facet import Pipelines
from support.api_world import ApiWorld
from support.pipelines import ROLE, definition, fail
from support.processing import processing_request
from support.tuning import tuning_request
from support.world import request


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    """A world whose only place is taken, so that nobody works on the jobs that the tests make."""
    with ApiWorld(tmp_path, bridge, max_jobs=1) as running:
        running.sagemaker.create_training_job(**request("first"))
        running.host("first")
        yield running


def make(world: ApiWorld, kind: str) -> str:
    """Makes a resource, and returns its ARN."""
    sagemaker = world.sagemaker
    if kind == "training-job":
        return str(sagemaker.create_training_job(**request("one"))["TrainingJobArn"])
    if kind == "processing-job":
        return str(sagemaker.create_processing_job(**processing_request("one"))["ProcessingJobArn"])
    if kind == "hyper-parameter-tuning-job":
        made = sagemaker.create_hyper_parameter_tuning_job(**tuning_request("one"))
        return str(made["HyperParameterTuningJobArn"])
    asked = {"PipelineName": "one", "PipelineDefinition": definition(fail("stop", "why")), "RoleArn": ROLE}
    return str(sagemaker.create_pipeline(**asked, ClientRequestToken=uuid.uuid4().hex)["PipelineArn"])


def drop(world: ApiWorld, kind: str, key: Any) -> None:
    store = world.engine._store
    if kind == "pipeline":
        store.pipelines.drop_record(key.arn)
    elif kind == "hyper-parameter-tuning-job":
        store.orchestrations.drop_record(world.engine.tuning.get(key).id)
    else:
        store.drop_record(store.get(key).id)


def ask(sagemaker: Any, change: str, arn: str) -> None:
    if change == "put_tags":
        sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    else:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=["a"])


CASES = [
    ("training-job", JobsOf, "ValidationException"),
    ("processing-job", JobsOf, "ValidationException"),
    ("hyper-parameter-tuning-job", Orchestrations, "ResourceNotFound"),
    ("pipeline", Pipelines, "ResourceNotFound"),
]


@pytest.mark.parametrize("change", ["put_tags", "delete_tags"])
@pytest.mark.parametrize(("kind", "owner", "code"), CASES)
def test_what_was_deleted_meanwhile_does_not_exist(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, kind: str, owner: type, code: str, change: str
) -> None:
    arn = make(world, kind)
    work = getattr(owner, change)

    def after_deletion(self: Any, key: Any, *rest: Any) -> Any:
        drop(world, kind, key)
        return work(self, key, *rest)

    monkeypatch.setattr(owner, change, after_deletion)
    with pytest.raises(ClientError) as caught:
        ask(world.sagemaker, change, arn)
    assert caught.value.response["Error"]["Code"] == code
