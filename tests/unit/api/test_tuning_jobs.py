"""Hyperparameter tuning jobs through boto3 and a real server."""

import json
import math
import sys
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import training_job_api

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
from sagelet_engine.model.tuning import trial_of
from sagelet_engine.tuning import strategies
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.fakes import FakeHost
from support.tuning import METRICS, RANGES, definition, tuning_request
from support.tuning_world import create, described, end, listed, refused, running, status
from support.world import request, until

ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:hyper-parameter-tuning-job/"
REFUSED_ROWS = training_job_api.classification()["CreateHyperParameterTuningJob"]["refused"]
GRID = {"CategoricalParameterRanges": [{"Name": "k", "Values": ["a", "b", "a"]}, {"Name": "l", "Values": ["1", "2"]}]}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


# --- the life of a tuning job -----------------------------------------------------------------------------------------


def test_two_run_at_a_time_and_the_best_is_told(world: ApiWorld) -> None:
    assert create(world)["HyperParameterTuningJobArn"] == f"{ARN}tune"
    for loss in (0.5, 0.25, 0.75, 0.5):
        end(world, running(world, 2)[0], loss)
    first, second = running(world, 2)
    end(world, first, None, code=1)
    end(world, second, None)
    until(lambda: status(world) == "Completed")
    shown = described(world)
    assert shown["TrainingJobStatusCounters"] == {
        "Completed": 5,
        "InProgress": 0,
        "RetryableError": 0,
        "NonRetryableError": 1,
        "Stopped": 0,
    }
    assert shown["ObjectiveStatusCounters"] == {"Succeeded": 4, "Pending": 0, "Failed": 2}
    best = shown["BestTrainingJob"]
    assert best["FinalHyperParameterTuningJobObjectiveMetric"] == {"MetricName": "loss", "Value": 0.25}
    assert best["TrainingJobName"].startswith("Tune-002-")
    assert shown["TrainingJobDefinition"]["StaticHyperParameters"] == {
        "epochs": "2",
        "_tuning_objective_metric": "loss",
    }
    assert shown["HyperParameterTuningEndTime"] >= shown["CreationTime"]
    assert shown["TuningJobCompletionDetails"]["NumberOfTrainingJobsObjectiveNotImproving"] == 4
    values = [one["TunedHyperParameters"] for one in listed(world)]
    assert all(one.keys() == {"bs", "lr"} for one in values)
    assert len({one["lr"] for one in values}) == 6
    (summary,) = world.sagemaker.list_hyper_parameter_tuning_jobs()["HyperParameterTuningJobSummaries"]
    assert (summary["Strategy"], summary["HyperParameterTuningJobStatus"]) == ("Random", "Completed")


def test_a_training_job_is_what_a_client_would_have_made(world: ApiWorld) -> None:
    job = definition(
        CheckpointConfig={"S3Uri": "s3://b/checkpoints/"},
        EnableManagedSpotTraining=True,
        StoppingCondition={"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 120},
        RetryStrategy={"MaximumRetryAttempts": 2},
        Environment={"A": "1"},
    )
    create(world, job=job, tags={"team": "vision"})
    name = running(world, 2)[0]
    child = world.sagemaker.describe_training_job(TrainingJobName=name)
    (tuned,) = [one for one in listed(world) if one["TrainingJobName"] == name]
    assert child["TuningJobArn"] == f"{ARN}tune"
    assert child["HyperParameters"] == {
        "epochs": "2",
        "_tuning_objective_metric": "loss",
        **tuned["TunedHyperParameters"],
    }
    assert child["CheckpointConfig"]["S3Uri"] == f"s3://b/checkpoints/{name}"
    assert (child["RetryStrategy"], child["Environment"]) == ({"MaximumRetryAttempts": 2}, {"A": "1"})
    assert child["AlgorithmSpecification"]["MetricDefinitions"] == METRICS
    tags = world.sagemaker.list_tags(ResourceArn=child["TrainingJobArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "vision"}]
    found = world.sagemaker.search(
        Resource="TrainingJob",
        SearchExpression={"Filters": [{"Name": "TuningJobArn", "Operator": "Equals", "Value": f"{ARN}tune"}]},
    )
    assert found["TotalHits"]["Value"] == 2


def test_network_and_places_are_those_of_the_definition(world: ApiWorld) -> None:
    same = {
        "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
        "EnableNetworkIsolation": True,
        "EnableInterContainerTrafficEncryption": True,
        "OutputDataConfig": {"S3OutputPath": "s3://b/other", "CompressionType": "NONE"},
        "InputDataConfig": [
            {"ChannelName": "c", "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/k"}}}
        ],
    }
    create(world, job=definition(**same))
    name = running(world, 2)[0]
    child = world.sagemaker.describe_training_job(TrainingJobName=name)
    shown = described(world)["TrainingJobDefinition"]
    for member in ("VpcConfig", "EnableNetworkIsolation", "EnableInterContainerTrafficEncryption"):
        assert child[member] == shown[member] == same[member]
    assert child["OutputDataConfig"] == {"KmsKeyId": "", **same["OutputDataConfig"]}
    assert child["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://b/other/{name}/output/model/"
    assert child["InputDataConfig"][0]["DataSource"] == same["InputDataConfig"][0]["DataSource"]
    assert shown["OutputDataConfig"] == same["OutputDataConfig"]


def test_instances_by_priority(world: ApiWorld) -> None:
    first = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 5}
    configs = [first, {**first, "InstanceCount": 2}]
    job = definition(
        HyperParameterTuningResourceConfig={"AllocationStrategy": "Prioritized", "InstanceConfigs": configs}
    )
    del job["ResourceConfig"]
    create(world, job=job)
    child = world.sagemaker.describe_training_job(TrainingJobName=running(world, 2)[0])
    assert child["ResourceConfig"] == first
    # HyperparameterTuner.attach of SDK v2 reads it, although SDK v2 does not send it.
    assert described(world)["TrainingJobDefinition"]["ResourceConfig"] == first


def test_a_stop_stops_the_training_jobs_and_makes_no_more(world: ApiWorld) -> None:
    create(world)
    names = running(world, 2)
    hosts = [world.host(name) for name in names]
    world.sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="Tune")
    world.sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="Tune")
    assert status(world) == "Stopping"
    until(lambda: all(world.job(name).status.value == "Stopping" for name in names))
    for host in hosts:
        host.end(0)
    until(lambda: status(world) == "Stopped")
    assert described(world)["TrainingJobStatusCounters"]["Stopped"] == 2
    assert len(listed(world)) == 2
    code, text = refused(world.sagemaker.stop_hyper_parameter_tuning_job, HyperParameterTuningJobName="Tune")
    assert (code, text) == (
        "ValidationException",
        "The request was rejected because the hyperparameter tuning job is in status Stopped.",
    )


def test_a_target_stops_the_others(world: ApiWorld) -> None:
    create(world, TuningJobCompletionCriteria={"TargetObjectiveMetricValue": 0.3})
    first, second = running(world, 2)
    other = world.host(second)
    until(lambda: world.job(second).launched)
    end(world, first, 0.25)
    until(lambda: world.job(second).status.value == "Stopping")
    other.end(0)
    until(lambda: status(world) == "Completed")


def test_max_runtime_stops_it(world: ApiWorld) -> None:
    limits = {"MaxNumberOfTrainingJobs": 6, "MaxParallelTrainingJobs": 1, "MaxRuntimeInSeconds": 120}
    create(world, ResourceLimits=limits)
    (name,) = running(world, 1)
    host = world.host(name)
    until(lambda: world.job(name).launched)
    world.clock.turn(121)
    until(lambda: world.job(name).status.value == "Stopping")
    host.end(0)
    until(lambda: status(world) == "Completed")


def test_all_training_jobs_failed(world: ApiWorld) -> None:
    create(world, ResourceLimits={"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 1})
    for _ in range(2):
        end(world, running(world, 1)[0], None, code=1)
    until(lambda: status(world) == "Failed")
    assert described(world)["FailureReason"].startswith("No training job succeeded after 2 attempts.")


def test_a_failed_trial_and_one_that_ended_in_nan_have_no_objective(world: ApiWorld) -> None:
    """Their earlier values are the best ones. A value after a NaN counts again."""
    create(world, ResourceLimits={"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 1})
    names: list[str] = []
    for losses, code in (([0.1], 1), ([0.2, math.nan], 0), ([0.3, math.inf, 0.4], 0), ([0.5], 0)):
        (name,) = running(world, 1)
        host = world.host(name)
        until(lambda name=name: world.job(name).launched)
        host.say(*(f"loss={loss}" for loss in losses))
        host.end(code)
        world.ended(name)
        names.append(name)
    until(lambda: status(world) == "Completed")
    summaries = {one["TrainingJobName"]: one for one in listed(world)}
    final = "FinalHyperParameterTuningJobObjectiveMetric"
    values = [summaries[name].get(final, {}).get("Value") for name in names]
    assert values == [None, None, pytest.approx(0.4), 0.5]
    assert [summaries[name]["ObjectiveStatus"] for name in names] == ["Failed", "Failed", "Succeeded", "Succeeded"]
    in_order = world.sagemaker.list_training_jobs_for_hyper_parameter_tuning_job(
        HyperParameterTuningJobName="Tune", SortBy="FinalObjectiveMetricValue"
    )["TrainingJobSummaries"]
    assert [one["TrainingJobName"] for one in in_order] == names[2:]
    assert described(world)["BestTrainingJob"]["TrainingJobName"] == names[2]


def test_the_bill_is_the_sum_of_the_training_jobs(world: ApiWorld) -> None:
    create(world, ResourceLimits={"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 1})
    for _ in range(2):
        (name,) = running(world, 1)
        until(lambda name=name: world.job(name).secondary.value == "Training")
        world.clock.turn(1800)
        end(world, name, 0.5)
    until(lambda: status(world) == "Completed")
    found = json.loads(world.page("/_sagelet/tuning/Tune/bill").data)
    children = [world.sagemaker.describe_training_job(TrainingJobName=one["TrainingJobName"]) for one in listed(world)]
    assert found["seconds"] == sum(one["BillableTimeInSeconds"] for one in children) >= 3600
    assert found["usd"] == pytest.approx(found["seconds"] / 3600 * 0.115)
    assert (found["training_jobs"], found["running"]) == (2, False)
    assert described(world)["ConsumedResources"]["RuntimeInSeconds"] >= 3600


def test_a_grid_has_each_point_once(world: ApiWorld) -> None:
    create(world, Strategy="Grid", ParameterRanges=GRID, ResourceLimits={"MaxParallelTrainingJobs": 4})
    for name in running(world, 4):
        end(world, name, 0.5)
    until(lambda: status(world) == "Completed")
    points = {tuple(one["TunedHyperParameters"].items()) for one in listed(world)}
    assert points == {(("k", k), ("l", n)) for k in "ab" for n in "12"}


HYPERBAND = {"HyperbandStrategyConfig": {"MinResource": 1, "MaxResource": 9}}


@pytest.mark.parametrize("name", ["Random", "Bayesian", "Hyperband"])
def test_every_strategy_runs(world: ApiWorld, name: str) -> None:
    limits = {"MaxNumberOfTrainingJobs": 8, "MaxParallelTrainingJobs": 2}
    more = {"StrategyConfig": HYPERBAND} if name == "Hyperband" else {}
    create(world, Strategy=name, ResourceLimits=limits, **more)
    for number in range(8):
        end(world, running(world, min(2, 8 - number))[0], 0.5 if number else 0.25)
    until(lambda: status(world) == "Completed")
    config = described(world)["HyperParameterTuningJobConfig"]
    assert (config["Strategy"], config.get("StrategyConfig")) == (name, more.get("StrategyConfig"))
    assert described(world)["BestTrainingJob"]["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == 0.25
    assert len({one["TunedHyperParameters"]["lr"] for one in listed(world)}) == 8


def reports(world: ApiWorld, job: str, *losses: float) -> FakeHost:
    """Has a running training job report objectives, and waits until they are stored."""
    host = world.host(job)
    until(lambda: world.job(job).launched)
    host.say(*(f"loss={loss}" for loss in losses))
    until(lambda: len(world.engine.metrics.of_job(world.job(job), "loss")) >= len(losses))
    return host


def stopped_early(world: ApiWorld, job: str, host: FakeHost) -> None:
    """Waits until a training job is asked to stop, and ends it."""
    until(lambda: world.job(job).status.value == "Stopping")
    host.end(0)
    until(lambda: world.job(job).terminal)


def test_a_worse_training_job_is_stopped_early(world: ApiWorld) -> None:
    create(world, TrainingJobEarlyStoppingType="Auto")
    first, second = running(world, 2)
    reports(world, first, 1.0, 0.5).end(0)
    until(lambda: described(world)["TrainingJobStatusCounters"]["Completed"] == 1)
    stopped_early(world, second, reports(world, second, 2.0))
    (shown,) = until(lambda: [one for one in listed(world, StatusEquals="Stopped") if "TrainingEndTime" in one])
    assert (shown["TrainingJobName"], shown["ObjectiveStatus"]) == (second, "Succeeded")
    assert shown["FinalHyperParameterTuningJobObjectiveMetric"] == {"MetricName": "loss", "Value": 2.0}
    assert described(world)["TrainingJobStatusCounters"]["Stopped"] == 1
    # Of the next two the better one goes on.
    third, fourth = running(world, 2)
    reports(world, third, 0.9)
    stopped_early(world, fourth, reports(world, fourth, 1.5))
    assert world.job(third).status.value == "InProgress"


def test_hyperband_stops_training_jobs_early(world: ApiWorld) -> None:
    limits = {"MaxNumberOfTrainingJobs": 3, "MaxParallelTrainingJobs": 3}
    create(world, Strategy="Hyperband", StrategyConfig=HYPERBAND, ResourceLimits=limits)
    first, second, third = running(world, 3)
    best = reports(world, first, 0.5)
    # The second trial is in another bracket.
    other = reports(world, second, *[0.9] * 9)
    stopped_early(world, third, reports(world, third, 0.75))
    assert [world.job(one).status.value for one in (first, second)] == ["InProgress", "InProgress"]
    # A tenth value is beyond MaxResource.
    other.say("loss=0.1")
    stopped_early(world, second, other)
    best.end(0)
    until(lambda: status(world) == "Completed")
    assert [one["TrainingJobStatus"] for one in listed(world)] == ["Completed", "Stopped", "Stopped"]
    assert described(world)["BestTrainingJob"]["TrainingJobName"] == second


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"Strategy": "Random", "StrategyConfig": HYPERBAND}, "HyperbandStrategyConfig is for the strategy Hyperband"),
        (
            {"Strategy": "Hyperband", "StrategyConfig": HYPERBAND, "TrainingJobEarlyStoppingType": "Auto"},
            "TrainingJobEarlyStoppingType must be Off to use Hyperband",
        ),
        (
            {"Strategy": "Hyperband", "StrategyConfig": {"HyperbandStrategyConfig": {"MinResource": 3}}},
            "MinResource 3 must not be greater than MaxResource 2",
        ),
    ],
)
def test_what_hyperband_does_not_allow(world: ApiWorld, config: dict[str, Any], text: str) -> None:
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **tuning_request("Tune", **config))
    assert code == "ValidationException"
    assert text in said


def test_without_optuna_a_bayesian_job_is_refused_by_the_name_of_the_extra(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strategies, "_STRATEGIES", {})
    monkeypatch.delitem(sys.modules, "sagelet_engine.tuning.strategies.bayesian", raising=False)
    monkeypatch.setitem(sys.modules, "optuna", None)
    body = tuning_request("Tune", Strategy="Bayesian")
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **body)
    assert code == "ValidationException"
    assert "extra `tuning`" in said
    assert "pip install 'optuna>=5,<6'" in said


def test_a_convergence_ends_the_job_and_its_time_is_told(world: ApiWorld) -> None:
    criteria = {"ConvergenceDetected": {"CompleteOnConvergence": "Enabled"}}
    limits = {"MaxNumberOfTrainingJobs": 40, "MaxParallelTrainingJobs": 1}
    create(world, TuningJobCompletionCriteria=criteria, ResourceLimits=limits)
    for _ in range(11):
        end(world, running(world, 1)[0], 0.5)
    until(lambda: status(world) == "Completed")
    shown = described(world)["TuningJobCompletionDetails"]
    assert shown["NumberOfTrainingJobsObjectiveNotImproving"] == 10
    assert shown["ConvergenceDetectedTime"] <= described(world)["HyperParameterTuningEndTime"]
    assert len(listed(world)) == 11


def test_several_definitions_take_turns(world: ApiWorld) -> None:
    body = tuning_request("Tune")
    single = body.pop("TrainingJobDefinition")
    config = body["HyperParameterTuningJobConfig"]
    own = {"TuningObjective": config.pop("HyperParameterTuningJobObjective"), "HyperParameterRanges": RANGES}
    del config["ParameterRanges"]
    body["TrainingJobDefinitions"] = [{**single, **own, "DefinitionName": name} for name in ("one", "two")]
    world.sagemaker.create_hyper_parameter_tuning_job(**body)
    running(world, 2)
    found = listed(world)
    assert [one["TrainingJobDefinitionName"] for one in found] == ["one", "two"]
    assert found[0]["TunedHyperParameters"] != found[1]["TunedHyperParameters"]
    assert [one["DefinitionName"] for one in described(world)["TrainingJobDefinitions"]] == ["one", "two"]


def tuning_key(name: str = "Tune") -> OrchestrationKey:
    return OrchestrationKey(ACCOUNT, REGION, name, OrchestrationKind.TUNING)


# --- lists, tags, deletion, events ------------------------------------------------------------------------------------


def test_training_jobs_in_every_order(world: ApiWorld) -> None:
    limits = {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 4}
    create(world, ResourceLimits=limits)
    names = running(world, 4)
    for name, loss in zip(names, (0.5, 0.25, 0.75, None), strict=True):
        end(world, name, loss, code=0 if loss else 1)

    def order(**asked: Any) -> list[int]:
        found = listed(world, PaginationConfig={"PageSize": 1}, **asked)
        return [names.index(one["TrainingJobName"]) for one in found]

    assert order() == [0, 1, 2, 3]
    assert order(SortOrder="Descending") == [3, 2, 1, 0]
    assert order(SortBy="FinalObjectiveMetricValue") == [1, 0, 2]
    assert order(SortBy="FinalObjectiveMetricValue", SortOrder="Descending") == [2, 0, 1]
    assert order(SortBy="Status") == [0, 1, 2, 3]
    assert order(SortBy="Status", SortOrder="Descending") == [3, 2, 1, 0]
    assert order(SortBy="CreationTime") == [0, 1, 2, 3]
    assert order(StatusEquals="Failed") == [3]
    ask = world.sagemaker.list_training_jobs_for_hyper_parameter_tuning_job
    token = ask(HyperParameterTuningJobName="Tune", MaxResults=1)["NextToken"]
    for changed in ({"SortBy": "Status"}, {"NextToken": "x"}):
        code, text = refused(ask, **{"HyperParameterTuningJobName": "Tune", "NextToken": token, **changed})
        assert (code, text) == ("ValidationException", "Invalid pagination token")


def test_tuning_jobs_are_listed_filtered_and_cut(world: ApiWorld) -> None:
    for name in ("b-one", "a-two", "c-two"):
        create(world, name)
        world.clock.turn(1)
    world.sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName="a-two")

    def names(**asked: Any) -> list[str]:
        pages = world.sagemaker.get_paginator("list_hyper_parameter_tuning_jobs").paginate(
            PaginationConfig={"PageSize": 1}, **asked
        )
        return [
            one["HyperParameterTuningJobName"] for page in pages for one in page["HyperParameterTuningJobSummaries"]
        ]

    assert names() == ["a-two", "b-one", "c-two"]
    assert names(SortBy="CreationTime") == ["b-one", "a-two", "c-two"]
    assert names(SortBy="Status")[2] == "a-two"
    assert names(SortBy="Name", SortOrder="Descending") == ["c-two", "b-one", "a-two"]
    assert names(NameContains="TWO") == ["a-two", "c-two"]
    assert names(StatusEquals="InProgress") == ["b-one", "c-two"]
    assert names(StatusEquals="DeleteFailed") == []
    made = {name: described(world, name)["CreationTime"] for name in ("a-two", "b-one")}
    assert names(CreationTimeAfter=made["b-one"]) == ["a-two", "c-two"]
    assert names(CreationTimeBefore=made["a-two"]) == ["b-one"]
    day = timedelta(days=1)
    assert names(LastModifiedTimeAfter=made["b-one"] - day, LastModifiedTimeBefore=made["b-one"] + day) == names()
    assert names(LastModifiedTimeAfter=made["b-one"] + day) == []
    assert names(LastModifiedTimeBefore=made["b-one"] - day) == []


def test_tags(world: ApiWorld) -> None:
    arn = create(world, tags={"a": "1"})["HyperParameterTuningJobArn"]
    world.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "b", "Value": "2"}])
    world.sagemaker.delete_tags(ResourceArn=arn, TagKeys=["a"])
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": "2"}]
    many = [{"Key": str(n), "Value": ""} for n in range(50)]
    assert refused(world.sagemaker.add_tags, ResourceArn=arn, Tags=many)[0] == "ResourceLimitExceeded"
    assert refused(world.sagemaker.add_tags, ResourceArn=arn, Tags=[{"Key": "aws:x", "Value": ""}])[0] == (
        "ValidationException"
    )
    # New training jobs get the tags of now.
    end(world, running(world, 2)[0], 0.5)
    third = next(one for one in running(world, 2) if one.startswith("Tune-003-"))
    assert world.job(third).tags == {"b": "2"}


def test_only_an_ended_job_is_deleted_and_its_training_jobs_stay(world: ApiWorld) -> None:
    create(world, ResourceLimits={"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1})
    (name,) = running(world, 1)
    delete = world.sagemaker.delete_hyper_parameter_tuning_job
    code, text = refused(delete, HyperParameterTuningJobName="Tune")
    assert (code, "not in a terminal state" in text) == ("ValidationException", True)
    end(world, name, 0.5)
    until(lambda: status(world) == "Completed")
    delete(HyperParameterTuningJobName="Tune")
    for operation in ("describe_hyper_parameter_tuning_job", "list_training_jobs_for_hyper_parameter_tuning_job"):
        code, text = refused(getattr(world.sagemaker, operation), HyperParameterTuningJobName="Tune")
        assert (code, text) == ("ResourceNotFound", "Amazon SageMaker can't find a tuning job with the name Tune")
    assert world.sagemaker.describe_training_job(TrainingJobName=name)["TuningJobArn"] == f"{ARN}tune"
    create(world)


def test_a_name_can_be_taken_once(world: ApiWorld) -> None:
    create(world)
    code, text = refused(world.sagemaker.create_hyper_parameter_tuning_job, **tuning_request("tUNE"))
    assert code == "ResourceInUse"
    assert text.endswith(f"already exists ({ARN}tune)")


def test_each_status_is_an_event(world: ApiWorld) -> None:
    queue = f"tuning-{uuid.uuid4().hex[:8]}"
    events, sqs = world.client("events"), world.client("sqs")
    url = sqs.create_queue(QueueName=queue)["QueueUrl"]
    pattern = {"detail-type": ["SageMaker HyperParameter Tuning Job State Change"]}
    events.put_rule(Name=queue, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=queue, Targets=[{"Id": "1", "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"}])
    create(world, tags={"a": "1"}, ResourceLimits={"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1})
    end(world, running(world, 1)[0], 0.5)
    seen: list[dict[str, Any]] = []

    def both() -> bool:
        for message in sqs.receive_message(QueueUrl=url, VisibilityTimeout=600).get("Messages", []):
            seen.append(json.loads(message["Body"]))
        return len(seen) == 2

    until(both)
    assert [one["detail"]["HyperParameterTuningJobStatus"] for one in seen] == ["InProgress", "Completed"]
    assert all(one["resources"] == [f"{ARN}tune"] and one["detail"]["Tags"] == {"a": "1"} for one in seen)
    assert seen[1]["detail"]["TrainingJobStatusCounters"]["Completed"] == 1
    assert seen[1]["detail"]["CreationTime"] == world.engine.tuning.get(tuning_key()).created_ms


# --- what is refused --------------------------------------------------------------------------------------------------

_TWO = [{**definition(), "DefinitionName": "one"}]
#: For each refused entry of members.toml what makes a good body have it.
REFUSED: dict[str, dict[str, Any]] = {
    "TrainingJobDefinition.AlgorithmSpecification.AlgorithmName": {
        "job": definition(AlgorithmSpecification={"AlgorithmName": "xgboost", "TrainingInputMode": "File"})
    },
}


def test_every_refused_entry_is_tried() -> None:
    assert REFUSED.keys() == REFUSED_ROWS.keys()


@pytest.mark.parametrize("path", REFUSED)
def test_a_refused_member_gets_the_error_of_the_table(world: ApiWorld, path: str) -> None:
    error, text, _ = REFUSED_ROWS[path]
    body = tuning_request("Tune", **REFUSED[path])
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **body)
    assert code == error
    assert text in said
    assert world.sagemaker.list_hyper_parameter_tuning_jobs()["HyperParameterTuningJobSummaries"] == []


NO_METRIC = (
    "A metric is required for this hyperparameter tuning job objective. Provide a metric in the metric definitions."
)


#: A channel without an object.
EMPTY = {"ChannelName": "c", "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/none"}}}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "acc"}}, NO_METRIC),
        *(
            (
                {"ResourceLimits": {"MaxParallelTrainingJobs": 1}, "TuningJobCompletionCriteria": criteria},
                "would not end",
            )
            for criteria in (
                {},
                {"BestObjectiveNotImproving": {}},
                {"ConvergenceDetected": {}},
                {"ConvergenceDetected": {"CompleteOnConvergence": "Disabled"}},
            )
        ),
        (
            {"ResourceLimits": {"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 2}},
            "MaxParallelTrainingJobs 2 must not be greater than MaxNumberOfTrainingJobs 1",
        ),
        (
            {"ParameterRanges": {**RANGES, "AutoParameters": [{"Name": "a", "ValueHint": "1"}]}},
            "AutoParameters is for Autotune; set Autotune.Mode to Enabled",
        ),
        ({"ParameterRanges": {}}, "At least one hyperparameter must have a range"),
        (
            {"ParameterRanges": {"IntegerParameterRanges": [{"Name": "epochs", "MinValue": "1", "MaxValue": "2"}]}},
            "The hyperparameter epochs is static and has a range",
        ),
        (
            {"ParameterRanges": {"IntegerParameterRanges": [{"Name": "n", "MinValue": "x", "MaxValue": "2"}]}},
            "MinValue 'x' of the integer parameter n is not an integer",
        ),
        (
            {"ParameterRanges": {"IntegerParameterRanges": [{"Name": "n", "MinValue": "1_0", "MaxValue": "20"}]}},
            "MinValue '1_0' of the integer parameter n is not an integer",
        ),
        (
            {
                "ParameterRanges": {
                    "CategoricalParameterRanges": [{"Name": "_tuning_objective_metric", "Values": ["x"]}]
                }
            },
            "_tuning_objective_metric has the name of the objective metric",
        ),
        (
            {"job": definition(StaticHyperParameters={f"s{n}": "1" for n in range(99)})},
            "101 hyperparameters; CreateTrainingJob takes up to 100",
        ),
        ({"Strategy": "Grid"}, "Grid search takes categorical parameters only"),
        ({"Strategy": "Grid", "ParameterRanges": GRID}, "must be the number of combinations of the grid, 4"),
        ({"job": definition(InputDataConfig=[EMPTY])}, 'No S3 objects found under S3 URL "s3://b/none"'),
        (
            {"job": definition(StoppingCondition={"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 2})},
            "Invalid MaxWaitTimeInSeconds.",
        ),
    ],
)
def test_what_cannot_become_a_tuning_job(world: ApiWorld, given: dict[str, Any], text: str) -> None:
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **tuning_request("Tune", **given))
    assert code == "ValidationException"
    assert text in said


def test_definitions_one_way_or_the_other(world: ApiWorld) -> None:
    body = {**tuning_request("Tune"), "TrainingJobDefinitions": _TWO}
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **body)
    assert (code, "exactly one of" in said) == ("ValidationException", True)
    del body["TrainingJobDefinition"]
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **body)
    assert (code, "each definition has TuningObjective" in said) == ("ValidationException", True)


def test_somebody_elses_job_with_the_name_of_a_trial(world: ApiWorld) -> None:
    create(world, ResourceLimits={"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 1})
    (first,) = running(world, 1)
    tuning = world.engine.tuning.get(tuning_key())
    taken = trial_of(tuning, 2, "", {}).name
    world.sagemaker.create_training_job(**request(taken))
    end(world, first, 0.5)
    until(lambda: status(world) == "Completed")
    failed = listed(world)[1]
    assert (failed["TrainingJobStatus"], failed["TrainingJobName"]) == ("Failed", taken)
    assert "already exists" in failed["FailureReason"]


@pytest.mark.parametrize("strategy", ["Random", "Bayesian", "Hyperband"])
def test_more_jobs_than_values_are_refused_in_aws_s_words(world: ApiWorld, strategy: str) -> None:
    ranges = {
        "IntegerParameterRanges": [{"Name": "i", "MinValue": "1", "MaxValue": "3"}],
        "CategoricalParameterRanges": [{"Name": "c", "Values": ["a", "b", "a"]}],
    }
    resource = {"HyperbandStrategyConfig": {"MinResource": 1, "MaxResource": 3}}

    def asked(jobs: int, ranges: dict[str, Any]) -> dict[str, Any]:
        limits = {"MaxNumberOfTrainingJobs": jobs, "MaxParallelTrainingJobs": 1}
        body = tuning_request("Few", ParameterRanges=ranges, ResourceLimits=limits)
        config = body["HyperParameterTuningJobConfig"] | {"Strategy": strategy}
        return body | {
            "HyperParameterTuningJobConfig": config | ({"StrategyConfig": resource} if strategy == "Hyperband" else {})
        }

    code, text = refused(world.sagemaker.create_hyper_parameter_tuning_job, **asked(7, ranges))
    assert (code, text) == (
        "ValidationException",
        "You don't have enough combinations of hyperparameter ranges. The total number of hyperparameter combinations "
        "for the provided ranges [6.0] must be equal or greater than the value of MaxNumberOfJobs, [7]. Provide "
        "additional ranges.",
    )
    world.sagemaker.create_hyper_parameter_tuning_job(**asked(6, ranges))
    continuous = ranges | {"ContinuousParameterRanges": [{"Name": "f", "MinValue": "0", "MaxValue": "1"}]}
    world.sagemaker.create_hyper_parameter_tuning_job(
        **asked(7, continuous) | {"HyperParameterTuningJobName": "Enough"}
    )
