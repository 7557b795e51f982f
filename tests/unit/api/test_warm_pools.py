"""Warm pools as clients see them: KeepAlivePeriodInSeconds, WarmPoolStatus, and jobs that have one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.fakes import FakeHost
from support.world import request, until

RESOURCES = request("x")["ResourceConfig"]
SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 3600},
}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    """A world with room for one job, so that a job that waits behind a pool shows."""
    with ApiWorld(tmp_path, bridge, max_jobs=1) as running:
        yield running


def create(world: ApiWorld, name: str, keep: int | None = None, **changes: Any) -> None:
    resources = {**RESOURCES, **changes.pop("resources", {})}
    if keep is not None:
        resources["KeepAlivePeriodInSeconds"] = keep
    world.sagemaker.create_training_job(**request(name, ResourceConfig=resources, **changes))


def training(world: ApiWorld, name: str) -> FakeHost:
    until(lambda: world.job(name).launched)
    return world.host(name)


def finish(world: ApiWorld, name: str, exit_code: int = 0) -> None:
    training(world, name).end(exit_code)
    world.ended(name)


def left_pool(world: ApiWorld, name: str, keep: int = 600, **changes: Any) -> None:
    create(world, name, keep, **changes)
    finish(world, name)


def describe(world: ApiWorld, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = world.sagemaker.describe_training_job(TrainingJobName=name)
    return answer


def pool(world: ApiWorld, name: str) -> dict[str, Any] | None:
    return describe(world, name).get("WarmPoolStatus")


def statuses(world: ApiWorld, name: str) -> list[str]:
    return [entry["Status"] for entry in describe(world, name)["SecondaryStatusTransitions"]]


def update(world: ApiWorld, name: str, keep: int) -> None:
    world.sagemaker.update_training_job(TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": keep})


def refused(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def refused_update(world: ApiWorld, name: str, keep: int) -> str:
    config = {"KeepAlivePeriodInSeconds": keep}
    code, text = refused(world.sagemaker.update_training_job, TrainingJobName=name, ResourceConfig=config)
    assert code == "ValidationException"
    return text


# --- life -----------------------------------------------------------------------------------------------------------


def test_a_pool_goes_from_job_to_job_and_ends_with_its_time(world: ApiWorld) -> None:
    create(world, "one", 600)
    training(world, "one")
    assert pool(world, "one") is None
    finish(world, "one")
    assert pool(world, "one") == {"Status": "Available"}
    world.clock.turn(100)
    create(world, "two", 300)
    training(world, "two")
    assert pool(world, "one") == {
        "Status": "Reused", "ReusedByJob": "two", "ResourceRetainedBillableTimeInSeconds": 100,
    }  # fmt: skip
    assert pool(world, "two") == {"Status": "InUse"}
    world.clock.turn(1000)
    finish(world, "two")
    assert pool(world, "two") == {"Status": "Available"}
    world.clock.turn(299)
    create(world, "other", RoleArn="arn:aws:iam::123456789012:role/Other")
    until(lambda: "Pending" in statuses(world, "other"))
    assert pool(world, "two") == {"Status": "Available"}
    world.clock.turn(1)
    training(world, "other")
    assert pool(world, "two") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 300}
    assert pool(world, "other") is None


def test_a_job_that_keeps_nothing_alive_ends_the_pool_that_it_got(world: ApiWorld) -> None:
    left_pool(world, "one")
    create(world, "two")
    training(world, "two")
    assert pool(world, "two") == {"Status": "InUse"}
    finish(world, "two")
    assert pool(world, "two") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}
    create(world, "other", RoleArn="arn:aws:iam::123456789012:role/Other")
    finish(world, "other")


def test_a_stopped_job_leaves_a_pool_once_it_had_its_hosts(world: ApiWorld) -> None:
    create(world, "one", 600)
    host = training(world, "one")
    create(world, "waits", 600, RoleArn="arn:aws:iam::123456789012:role/Other")
    world.sagemaker.stop_training_job(TrainingJobName="waits")
    world.ended("waits")
    assert pool(world, "waits") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}
    world.sagemaker.stop_training_job(TrainingJobName="one")
    until(lambda: host.signals == ["TERM"])
    assert pool(world, "one") is None
    host.end(143)
    world.ended("one")
    assert pool(world, "one") == {"Status": "Available"}


def test_a_job_that_failed_by_itself_leaves_a_pool(world: ApiWorld) -> None:
    create(world, "one", 600)
    finish(world, "one", 7)
    assert describe(world, "one")["FailureReason"].startswith("AlgorithmError")
    assert pool(world, "one") == {"Status": "Available"}


def test_a_job_whose_hosts_failed_leaves_none(world: ApiWorld) -> None:
    create(world, "one", 600)
    host = training(world, "one")
    world.runtime.hosts.clear()
    host.end(0)
    world.ended("one")
    assert describe(world, "one")["FailureReason"].startswith("InternalServerError")
    assert pool(world, "one") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}
    create(world, "two")
    finish(world, "two")
    assert pool(world, "two") is None


def test_a_cluster_lives_for_28_days(world: ApiWorld) -> None:
    create(world, "one", 600)
    training(world, "one")
    world.clock.turn(3000)
    finish(world, "one")
    for number in range(1, 30):
        create(world, f"next-{number}", 600, StoppingCondition={"MaxRuntimeInSeconds": 28 * 86_400})
        training(world, f"next-{number}")
        assert pool(world, f"next-{number}") == {"Status": "InUse"}
        world.clock.turn(86_400)
        finish(world, f"next-{number}")
        if pool(world, f"next-{number}") != {"Status": "Available"}:
            break
    assert number == 28
    assert pool(world, "next-28") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}


def test_spot_and_pools_exclude_each_other(world: ApiWorld) -> None:
    body = request("one", ResourceConfig={**RESOURCES, "KeepAlivePeriodInSeconds": 60}, **SPOT)
    code, text = refused(world.sagemaker.create_training_job, **body)
    assert (code, "EnableManagedSpotTraining" in text) == ("ValidationException", True)
    body["ResourceConfig"]["KeepAlivePeriodInSeconds"] = 0
    world.sagemaker.create_training_job(**body)
    finish(world, "one")
    assert pool(world, "one") is None


def test_checkpoints_stay_out_of_the_cache(world: ApiWorld) -> None:
    checkpoints = {"S3Uri": "s3://out/c", "LocalPath": "/opt/ml/sagemaker/warmpoolcache/c"}
    code, text = refused(world.sagemaker.create_training_job, **request("one", CheckpointConfig=checkpoints))
    assert (code, "choose another directory" in text) == ("ValidationException", True)


# --- matching -------------------------------------------------------------------------------------------------------


VPC = {"SecurityGroupIds": ["sg-1", "sg-2"], "Subnets": ["subnet-1"]}
DIFFERENCES = {
    "role": {"RoleArn": "arn:aws:iam::123456789012:role/Other"},
    "instance type": {"resources": {"InstanceType": "ml.m5.xlarge"}},
    "volume": {"resources": {"VolumeSizeInGB": 11}},
    "key": {"resources": {"VolumeKmsKeyId": "key"}},
    "no vpc": {"VpcConfig": None},
    "security groups": {"VpcConfig": {**VPC, "SecurityGroupIds": ["sg-1"]}},
    "subnets": {"VpcConfig": {**VPC, "Subnets": ["subnet-2"]}},
    "traffic encryption": {"EnableInterContainerTrafficEncryption": True},
    "network isolation": {"EnableNetworkIsolation": True},
    "session tags": {"SessionChainingConfig": {"EnableSessionTagChaining": True}},
    "spot": SPOT,
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_job_that_does_not_match_waits_until_the_pool_ends(world: ApiWorld, name: str) -> None:
    left_pool(world, "one", VpcConfig=VPC)
    changes = {"VpcConfig": VPC, **DIFFERENCES[name]}
    create(world, "other", **{member: value for member, value in changes.items() if value is not None})
    until(lambda: "Pending" in statuses(world, "other"))
    assert pool(world, "one") == {"Status": "Available"}
    update(world, "one", 0)
    training(world, "other")
    assert pool(world, "other") is None
    assert pool(world, "one") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 0}


def test_what_need_not_match(world: ApiWorld) -> None:
    left_pool(world, "one", VpcConfig=VPC, Environment={"A": "1"})
    groups = {**VPC, "SecurityGroupIds": VPC["SecurityGroupIds"][::-1]}
    create(world, "two", VpcConfig=groups, HyperParameters={"epochs": "2"}, EnableNetworkIsolation=False)
    training(world, "two")
    assert pool(world, "two") == {"Status": "InUse"}


@pytest.mark.parametrize("of", ["account", "region"])
def test_a_pool_serves_its_own_account_and_region(world: ApiWorld, of: str) -> None:
    left_pool(world, "one")
    other = world.client("sagemaker", **{"account": {"account": "210987654321"}, "region": {"region": "eu-west-1"}}[of])
    other.create_training_job(**request("two"))

    def found() -> list[str]:
        entries = other.describe_training_job(TrainingJobName="two")["SecondaryStatusTransitions"]
        return [entry["Status"] for entry in entries]

    until(lambda: found() == ["Starting", "Pending"])
    assert pool(world, "one") == {"Status": "Available"}


def test_a_matching_job_need_not_wait_behind_others_and_only_one_gets_the_pool(world: ApiWorld) -> None:
    create(world, "one", 600)
    training(world, "one")
    for name in ("other-1", "other-2"):
        create(world, name, RoleArn="arn:aws:iam::123456789012:role/Other")
    create(world, "two", 600)
    create(world, "three")
    until(lambda: statuses(world, "three") == ["Starting", "Pending"])
    finish(world, "one")
    training(world, "two")
    assert pool(world, "one")["ReusedByJob"] == "two"
    assert pool(world, "three") is None
    finish(world, "two")
    training(world, "three")
    assert pool(world, "two")["ReusedByJob"] == "three"
    assert [world.job(name).placed_ms for name in ("other-1", "other-2")] == [None, None]
    finish(world, "three")
    finish(world, "other-1")
    finish(world, "other-2")


# --- update and delete ----------------------------------------------------------------------------------------------


def test_an_update_moves_the_end_of_a_pool(world: ApiWorld) -> None:
    left_pool(world, "one", 60)
    world.clock.turn(50)
    update(world, "one", 120)
    assert describe(world, "one")["ResourceConfig"]["KeepAlivePeriodInSeconds"] == 120
    world.clock.turn(60)
    create(world, "other", RoleArn="arn:aws:iam::123456789012:role/Other")
    until(lambda: "Pending" in statuses(world, "other"))
    assert pool(world, "one") == {"Status": "Available"}
    world.clock.turn(10)
    training(world, "other")
    assert pool(world, "one") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 120}


def test_an_update_to_a_time_that_is_over_ends_the_pool_now(world: ApiWorld) -> None:
    left_pool(world, "one", 600)
    world.clock.turn(50)
    update(world, "one", 40)
    assert pool(world, "one") == {"Status": "Terminated", "ResourceRetainedBillableTimeInSeconds": 50}


def test_when_a_pool_cannot_be_updated(world: ApiWorld) -> None:
    create(world, "one", 600)
    training(world, "one")
    assert "status InProgress, it has no warm pool yet" in refused_update(world, "one", 60)
    finish(world, "one")
    profiler = {"ProfilerConfig": {"DisableProfiler": True}}
    both = {"ResourceConfig": {"KeepAlivePeriodInSeconds": 60}, **profiler}
    for members in (profiler, both):
        assert refused(world.sagemaker.update_training_job, TrainingJobName="one", **members) == (
            "ValidationException", "The request was rejected because the training job is in status Completed.",
        )  # fmt: skip
    create(world, "two")
    training(world, "two")
    assert "status Completed, its warm pool is Reused" in refused_update(world, "one", 0)
    assert "status InProgress, its warm pool is InUse" in refused_update(world, "two", 60)
    finish(world, "two")
    assert "status Completed, its warm pool is Terminated" in refused_update(world, "two", 60)
    create(world, "three")
    finish(world, "three")
    assert "was created with one" in refused_update(world, "three", 60)


def test_a_job_with_an_available_pool_cannot_be_deleted(world: ApiWorld) -> None:
    left_pool(world, "one")
    code, text = refused(world.sagemaker.delete_training_job, TrainingJobName="one")
    assert (code, "KeepAlivePeriodInSeconds 0" in text) == ("ResourceInUse", True)
    update(world, "one", 0)
    world.sagemaker.delete_training_job(TrainingJobName="one")
    assert refused(world.sagemaker.describe_training_job, TrainingJobName="one")[0] == "ValidationException"


def test_a_job_whose_pool_was_reused_can_be_deleted_while_the_next_one_runs(world: ApiWorld) -> None:
    left_pool(world, "one")
    create(world, "two", 600)
    training(world, "two")
    world.sagemaker.delete_training_job(TrainingJobName="one")
    finish(world, "two")
    assert pool(world, "two") == {"Status": "Available"}


# --- list and search ------------------------------------------------------------------------------------------------


def test_lists_and_searches_know_pools(world: ApiWorld) -> None:
    left_pool(world, "one")
    world.clock.turn(10)
    left_pool(world, "two")
    world.clock.turn(1)
    create(world, "three")
    finish(world, "three")
    create(world, "cold")
    finish(world, "cold")
    left_pool(world, "four")

    def listed(status: str) -> list[str]:
        found = world.sagemaker.list_training_jobs(WarmPoolStatusEquals=status)["TrainingJobSummaries"]
        return [job["TrainingJobName"] for job in found]

    wanted = {"Available": ["four"], "Reused": ["two", "one"], "Terminated": ["three"], "InUse": []}
    assert {status: listed(status) for status in wanted} == wanted
    summaries = world.sagemaker.list_training_jobs()["TrainingJobSummaries"]
    assert {job["TrainingJobName"]: job.get("WarmPoolStatus") for job in summaries} == {
        name: pool(world, name) for name in ("one", "two", "three", "cold", "four")
    }

    def searched(name: str, operator: str, value: str | None = None) -> list[str]:
        condition = {"Name": name, "Operator": operator, **({} if value is None else {"Value": value})}
        found = world.sagemaker.search(
            Resource="TrainingJob", SearchExpression={"Filters": [condition]}, SortBy="CreationTime",
            SortOrder="Ascending",
        )["Results"]  # fmt: skip
        return [entry["TrainingJob"]["TrainingJobName"] for entry in found]

    assert searched("WarmPoolStatus.Status", "Equals", "Reused") == ["one", "two"]
    assert searched("WarmPoolStatus.ReusedByJob", "Contains", "thr") == ["two"]
    assert searched("WarmPoolStatus.ResourceRetainedBillableTimeInSeconds", "GreaterThan", "9") == ["one"]
    assert searched("WarmPoolStatus.ResourceRetainedBillableTimeInSeconds", "LessThan", "9") == ["two", "three"]
    assert searched("WarmPoolStatus", "NotExists") == ["cold"]
    found = world.sagemaker.search(Resource="TrainingJob", SortBy="WarmPoolStatus.Status", SortOrder="Ascending")
    records = {entry["TrainingJob"]["TrainingJobName"]: entry["TrainingJob"] for entry in found["Results"]}
    assert next(iter(records)) == "cold"
    assert records["one"]["WarmPoolStatus"] == pool(world, "one")
