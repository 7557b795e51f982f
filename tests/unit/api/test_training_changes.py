"""UpdateTrainingJob and DeleteTrainingJob, through boto3 and a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.acting import of_job
from support.api_world import ApiWorld
from support.world import request, until

MISSING = ("ValidationException", "Requested resource not found.")


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge, max_jobs=2) as running:
        yield running


def refused(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def training(world: ApiWorld, name: str, **changes: Any) -> None:
    world.sagemaker.create_training_job(**request(name, **changes))
    world.host(name)
    until(lambda: world.job(name).launched)


def ended(world: ApiWorld, name: str, **changes: Any) -> None:
    training(world, name, **changes)
    world.host(name).say("loss=1")
    world.host(name).end(0)
    world.ended(name)


def describe(world: ApiWorld, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = world.sagemaker.describe_training_job(TrainingJobName=name)
    return answer


# --- update ---------------------------------------------------------------------------------------------------------


def test_an_update_is_stored_and_echoed_and_touches_nothing_else(world: ApiWorld) -> None:
    profiler = {"S3OutputPath": "s3://b/p", "DisableProfiler": False}
    rule = {"RuleConfigurationName": "r", "RuleEvaluatorImage": "i"}
    training(world, "One", ProfilerConfig=profiler, ProfilerRuleConfigurations=[rule])
    before = describe(world, "One")
    world.clock.turn(5)
    answer = world.sagemaker.update_training_job(
        TrainingJobName="one",
        ProfilerConfig={"DisableProfiler": True, "ProfilingIntervalInMilliseconds": 1000},
        ProfilerRuleConfigurations=[{**rule, "RuleEvaluatorImage": "j"}, {**rule, "RuleConfigurationName": "s"}],
        RemoteDebugConfig={"EnableRemoteDebug": True},
    )
    assert answer["TrainingJobArn"] == before["TrainingJobArn"]
    after = describe(world, "One")
    changed = {name for name in after if after[name] != before.get(name)} - {"ResponseMetadata"}
    assert changed == {
        "ProfilerConfig", "ProfilerRuleConfigurations", "ProfilerRuleEvaluationStatuses", "ProfilingStatus",
        "RemoteDebugConfig", "LastModifiedTime",
    }  # fmt: skip
    assert after["ProfilerConfig"] == {
        "S3OutputPath": "s3://b/p", "DisableProfiler": True, "ProfilingIntervalInMilliseconds": 1000,
    }  # fmt: skip
    assert after["ProfilerRuleConfigurations"] == [
        {"RuleConfigurationName": "r", "RuleEvaluatorImage": "j"},
        {"RuleConfigurationName": "s", "RuleEvaluatorImage": "i"},
    ]
    assert after["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    assert (after["LastModifiedTime"] - before["LastModifiedTime"]).total_seconds() == 5


def test_a_job_goes_on_after_an_update(world: ApiWorld) -> None:
    training(world, "one")
    world.sagemaker.update_training_job(TrainingJobName="one", RemoteDebugConfig={"EnableRemoteDebug": True})
    world.host("one").end(0)
    assert world.ended("one").status.value == "Completed"
    assert describe(world, "one")["RemoteDebugConfig"] == {"EnableRemoteDebug": True}
    world.restart()
    assert describe(world, "one")["RemoteDebugConfig"] == {"EnableRemoteDebug": True}


def test_a_job_that_has_ended_cannot_be_updated(world: ApiWorld) -> None:
    ended(world, "one")
    assert refused(
        world.sagemaker.update_training_job, TrainingJobName="one", ProfilerConfig={"DisableProfiler": True}
    ) == ("ValidationException", "The request was rejected because the training job is in status Completed.")


def test_what_cannot_be_updated_now(world: ApiWorld) -> None:
    world.waiting_job("waits")
    update = world.sagemaker.update_training_job
    code, text = refused(update, TrainingJobName="waits", RemoteDebugConfig={"EnableRemoteDebug": True})
    assert (code, "it is Starting" in text) == ("ValidationException", True)
    code, text = refused(update, TrainingJobName="waits", ResourceConfig={"KeepAlivePeriodInSeconds": 1})
    assert (code, "KeepAlivePeriodInSeconds" in text) == ("ValidationException", True)
    code, text = refused(update, TrainingJobName="waits", ProfilerConfig={"ProfilingIntervalInMilliseconds": 7})
    assert (code, "must be one of" in text) == ("ValidationException", True)
    code, text = refused(update, TrainingJobName="waits", ResourceConfig={"KeepAlivePeriodInSeconds": 21601})
    assert "'resourceConfig.keepAlivePeriodInSeconds' failed to satisfy constraint" in text
    twice = [{"RuleConfigurationName": "r", "RuleEvaluatorImage": "i"}] * 2
    assert "must be unique" in refused(update, TrainingJobName="waits", ProfilerRuleConfigurations=twice)[1]


# --- delete ---------------------------------------------------------------------------------------------------------


def test_a_deleted_job_leaves_nothing_but_its_artifacts(world: ApiWorld) -> None:
    metrics = [{"Name": "loss", "Regex": r"loss=(\S+)"}]
    algorithm = {**request("x")["AlgorithmSpecification"], "MetricDefinitions": metrics}
    training(world, "One", AlgorithmSpecification=algorithm, Tags=[{"Key": "a", "Value": "b"}])
    job = world.job("One")
    directory = world.settings.data / "jobs" / job.key.account / job.key.region
    (directory / job.id / "algo-1/opt-ml/model/weights").write_text("1")
    world.host("One").say("loss=1")
    world.host("One").end(0)
    world.ended("One")
    assert [path.name for path in directory.iterdir()] == [job.id]
    assert world.engine.metrics.final(job)
    answer = world.sagemaker.delete_training_job(TrainingJobName="one")
    assert set(answer) == {"ResponseMetadata"}
    assert refused(world.sagemaker.describe_training_job, TrainingJobName="One") == MISSING
    assert refused(world.sagemaker.list_tags, ResourceArn=job.key.arn) == MISSING
    assert refused(world.sagemaker.delete_training_job, TrainingJobName="One") == MISSING
    assert world.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []
    assert world.engine.logs.streams(job.key.account, job.key.region) == []
    assert world.engine.metrics.final(job) == []
    assert not [*directory.iterdir()]
    model = world.objects.list(of_job(job), "out", "models/One/")
    assert [found.key for found in model] == ["models/One/output/model.tar.gz"]


def test_the_name_of_a_deleted_job_is_free(world: ApiWorld) -> None:
    ended(world, "one", Tags=[{"Key": "a", "Value": "b"}])
    first = world.job("one").id
    world.sagemaker.delete_training_job(TrainingJobName="one")
    ended(world, "One")
    assert world.job("one").id != first
    assert world.log("One") == ["loss=1"]
    assert world.sagemaker.list_tags(ResourceArn=world.job("one").key.arn)["Tags"] == []


@pytest.mark.parametrize("status", ["InProgress", "Stopping"])
def test_a_job_that_has_not_ended_cannot_be_deleted(world: ApiWorld, status: str) -> None:
    training(world, "one")
    if status == "Stopping":
        world.sagemaker.stop_training_job(TrainingJobName="one")
    code, text = refused(world.sagemaker.delete_training_job, TrainingJobName="one")
    assert code == "ResourceInUse"
    assert text.startswith(f"The request was rejected because the training job is in status {status};")
    assert describe(world, "one")["TrainingJobStatus"] == status


def test_another_accounts_job_stays(world: ApiWorld) -> None:
    ended(world, "one")
    other = world.client("sagemaker", account="210987654321")
    assert refused(other.delete_training_job, TrainingJobName="one") == MISSING
    assert describe(world, "one")["TrainingJobStatus"] == "Completed"
