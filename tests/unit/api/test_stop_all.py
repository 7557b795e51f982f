"""Everything of an account is asked to stop at once, as at the end of a test's account."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, ApiWorld
from support.pipelines import ROLE, definition, train
from support.processing import processing_request
from support.tuning import tuning_request
from support.world import request, until

OTHER = "900000000001"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge, max_jobs=16) as running:
        yield running


def begin(sagemaker: Any) -> str:
    """Begins one of each kind. Returns the ARN of the pipeline's execution."""
    sagemaker.create_training_job(**request("alone"))
    sagemaker.create_processing_job(**processing_request("processed"))
    sagemaker.create_hyper_parameter_tuning_job(**tuning_request("tuned"))
    made = {"PipelineName": "line", "PipelineDefinition": definition(train("fit")), "RoleArn": ROLE}
    sagemaker.create_pipeline(**made, ClientRequestToken=uuid.uuid4().hex)
    token = uuid.uuid4().hex
    arn: str = sagemaker.start_pipeline_execution(PipelineName="line", ClientRequestToken=token)["PipelineExecutionArn"]
    return arn


def states(sagemaker: Any, execution: str) -> set[str]:
    """The statuses of the four."""
    return {
        sagemaker.describe_training_job(TrainingJobName="alone")["TrainingJobStatus"],
        sagemaker.describe_processing_job(ProcessingJobName="processed")["ProcessingJobStatus"],
        sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName="tuned")[
            "HyperParameterTuningJobStatus"
        ],
        sagemaker.describe_pipeline_execution(PipelineExecutionArn=execution)["PipelineExecutionStatus"],
    }


def test_every_kind_is_asked_to_stop_and_other_accounts_go_on(world: ApiWorld) -> None:
    theirs = world.client("sagemaker", account=OTHER)
    execution, other = begin(world.sagemaker), begin(theirs)
    until(lambda: len(world.sagemaker.list_training_jobs()["TrainingJobSummaries"]) >= 3)
    assert world.engine.stop_all(ACCOUNT) >= 4

    def stopped() -> bool:
        for host in [*world.runtime.hosts.values()]:
            if host.signals:
                host.end(143)
        return states(world.sagemaker, execution) <= {"Stopped"}

    until(stopped)
    assert states(theirs, other) == {"InProgress", "Executing"}
    assert world.engine.stop_all(ACCOUNT) == 0


def test_no_warm_pool_of_the_account_keeps_a_place(tmp_path: Path, bridge: MotoBridge) -> None:
    """A pool keeps its job's place, for up to an hour, and the next account needs it."""
    with ApiWorld(tmp_path, bridge, max_jobs=2) as world:
        resources = {**request("x")["ResourceConfig"], "KeepAlivePeriodInSeconds": 3600}
        for name in ("ended", "runs"):
            world.sagemaker.create_training_job(**request(name, ResourceConfig=resources))
            until(lambda name=name: world.job(name).launched)
        world.host("ended").end(0)
        world.ended("ended")
        assert world.job("ended").pool_available
        assert world.engine.stop_all(ACCOUNT) == 1
        until(lambda: world.host("runs").signals)
        world.host("runs").end(143)
        world.ended("runs")
        world.clock.turn(1)
        theirs = world.client("sagemaker", account=OTHER)
        for name in ("one", "two"):
            theirs.create_training_job(**request(name))

        def status(name: str) -> str:
            return str(theirs.describe_training_job(TrainingJobName=name)["SecondaryStatus"])

        until(lambda: status("one") == status("two") == "Training", seconds=10)
