"""Warm start of tuning jobs through boto3 and a real server."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model import aws_texts
from sagelet_engine.model.tuning import Inherited
from support.api_world import ApiWorld
from support.tuning import RANGES, definition, tuning_request
from support.tuning_world import create, described, end, listed, refused, running, status
from support.world import until

TRANSFER, IDENTICAL = "TransferLearning", "IdenticalDataAndAlgorithm"
ONE_BY_ONE = {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 1}
COLORS = [f"color-{number}" for number in range(11)]


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def run(world: ApiWorld, name: str, *losses: float | None, **given: Any) -> list[dict[str, Any]]:
    """Runs a tuning job to its end. Returns its training jobs."""
    limits = {"MaxNumberOfTrainingJobs": len(losses), "MaxParallelTrainingJobs": 1}
    create(world, name, **{"ResourceLimits": limits, **given})
    for loss in losses:
        end(world, running(world, 1, name)[0], loss, code=0 if loss is not None else 1)
    until(lambda: status(world, name) in ("Completed", "Failed"))
    return listed(world, name)


def child(kind: str, *parents: str, job: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    names = [{"HyperParameterTuningJobName": one} for one in parents]
    return {
        **tuning_request("Child", job=job, **{"ResourceLimits": ONE_BY_ONE, **config}),
        "WarmStartConfig": {"ParentHyperParameterTuningJobs": names, "WarmStartType": kind},
    }


def inherited(world: ApiWorld, body: dict[str, Any]) -> tuple[Inherited, ...]:
    """Creates a tuning job. Returns what it knows of its parents."""
    world.sagemaker.create_hyper_parameter_tuning_job(**body)
    (job,) = [one for one in world.engine.tuning.every("123456789012", "us-east-1") if one.key.name == "Child"]
    assert job.warm_start is not None
    return job.warm_start.inherited


# --- what a child takes over ------------------------------------------------------------------------------------------


def test_the_overall_best_is_the_parents_until_the_child_is_better(world: ApiWorld) -> None:
    parents = run(world, "One", 0.5, 0.25) + run(world, "Two", 0.375)
    world.sagemaker.create_hyper_parameter_tuning_job(**child(IDENTICAL, "One", "Two"))
    end(world, running(world, 1, "Child")[0], 0.75)
    shown = described(world, "Child")
    assert shown["WarmStartConfig"]["WarmStartType"] == IDENTICAL
    assert shown["BestTrainingJob"]["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == 0.75
    best = shown["OverallBestTrainingJob"]
    assert (best["TuningJobName"], best["TrainingJobName"]) == ("One", parents[1]["TrainingJobName"])
    assert best["FinalHyperParameterTuningJobObjectiveMetric"] == {"MetricName": "loss", "Value": 0.25}
    end(world, running(world, 1, "Child")[0], 0.125)
    until(lambda: status(world, "Child") == "Completed")
    best = described(world, "Child")["OverallBestTrainingJob"]
    assert (best["TuningJobName"], best["TrainingJobName"][:10]) == ("Child", "Child-002-")


def test_with_transfer_learning_there_is_no_overall_best(world: ApiWorld) -> None:
    run(world, "One", 0.5)
    world.sagemaker.create_hyper_parameter_tuning_job(**child(TRANSFER, "One"))
    assert "OverallBestTrainingJob" not in described(world, "Child")
    assert described(world, "Child")["WarmStartConfig"]["WarmStartType"] == TRANSFER


def test_values_go_over_and_the_search_goes_on_after_them(world: ApiWorld) -> None:
    parents = run(world, "One", 0.5, None, 0.25)
    found = inherited(world, child(IDENTICAL, "One"))
    assert [one.values for one in found] == [one["TunedHyperParameters"] for one in parents]
    assert [one.objective for one in found] == [0.5, None, 0.25]
    running(world, 1, "Child")
    # Both have the same RandomSeed, and a random search goes on after what it knows.
    assert listed(world, "Child")[0]["TunedHyperParameters"] not in [one.values for one in found]


def test_values_outside_the_new_ranges_are_left_out(world: ApiWorld) -> None:
    parents = run(world, "One", 0.5, 0.5, 0.5, 0.5)
    sizes = sorted(int(one["TunedHyperParameters"]["bs"]) for one in parents)
    ranges = copy.deepcopy(RANGES)
    ranges["IntegerParameterRanges"][0]["MaxValue"] = str(sizes[1])
    found = inherited(world, child(IDENTICAL, "One", ParameterRanges=ranges))
    assert sorted(int(one.values["bs"]) for one in found) == sizes[:2]


def test_static_becomes_tunable_and_tunable_static(world: ApiWorld) -> None:
    run(world, "One", 0.5)
    ranges = {**RANGES, "IntegerParameterRanges": [{"Name": "epochs", "MinValue": "1", "MaxValue": "4"}]}
    job = definition(StaticHyperParameters={"bs": "8"})
    (found,) = inherited(world, child(IDENTICAL, "One", job=job, ParameterRanges=ranges))
    assert found.values.keys() == {"lr", "epochs"}
    assert found.values["epochs"] == "2"


def test_a_parent_may_be_deleted_afterwards_and_not_before(world: ApiWorld) -> None:
    run(world, "One", 0.25)
    world.sagemaker.create_hyper_parameter_tuning_job(**child(IDENTICAL, "One"))
    world.sagemaker.delete_hyper_parameter_tuning_job(HyperParameterTuningJobName="One")
    end(world, running(world, 1, "Child")[0], 0.75)
    assert described(world, "Child")["OverallBestTrainingJob"]["TuningJobName"] == "One"
    body = {**child(IDENTICAL, "One"), "HyperParameterTuningJobName": "Late"}
    code, text = refused(world.sagemaker.create_hyper_parameter_tuning_job, **body)
    assert (code, text) == ("ValidationException", aws_texts.no_tuning_job("One"))


def test_transfer_learning_takes_other_data_and_another_image(world: ApiWorld) -> None:
    run(world, "One", 0.5)
    other = definition(
        InputDataConfig=[
            {"ChannelName": "c", "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/k"}}}
        ]
    )
    body = child(IDENTICAL, "One", job=other)
    code, text = refused(world.sagemaker.create_hyper_parameter_tuning_job, **body)
    assert (code, "the input data must be those of the parent" in text) == ("ValidationException", True)
    body["WarmStartConfig"]["WarmStartType"] = TRANSFER
    assert len(inherited(world, body)) == 1


def test_warm_start_is_not_recursive(world: ApiWorld) -> None:
    run(world, "One", 0.25)
    body = child(IDENTICAL, "One", ResourceLimits={"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1})
    world.sagemaker.create_hyper_parameter_tuning_job(**{**body, "HyperParameterTuningJobName": "Two"})
    end(world, running(world, 1, "Two")[0], 0.5)
    until(lambda: status(world, "Two") == "Completed")
    assert [one.objective for one in inherited(world, child(IDENTICAL, "Two"))] == [0.5]


# --- what is refused --------------------------------------------------------------------------------------------------


def _fixed(value: str) -> dict[str, Any]:
    return definition(StaticHyperParameters={"epochs": "2", **{f"s{number}": value for number in range(6)}})


@pytest.mark.parametrize(
    ("parent", "body", "text"),
    [
        ({}, child(IDENTICAL, "One", "one"), "names a tuning job twice"),
        (
            {},
            child(
                IDENTICAL,
                "One",
                Strategy="Grid",
                ResourceLimits={"MaxParallelTrainingJobs": 1},
                ParameterRanges={"CategoricalParameterRanges": [{"Name": "bs", "Values": ["1"]}]},
            ),
            "The strategy Grid tries every combination",
        ),
        (
            {},
            child(IDENTICAL, "One", HyperParameterTuningJobObjective={"Type": "Maximize", "MetricName": "loss"}),
            "The objective metric must be that of the parent tuning job One: Minimize loss",
        ),
        ({}, child(IDENTICAL, "One", job=definition(StaticHyperParameters={})), aws_texts.OTHER_HYPERPARAMETERS),
        (
            {},
            child(
                TRANSFER,
                "One",
                ParameterRanges={
                    "ContinuousParameterRanges": [
                        *RANGES["ContinuousParameterRanges"],
                        {"Name": "bs", "MinValue": "1", "MaxValue": "9"},
                    ]
                },
            ),
            "The hyperparameter bs is continuous, and integer in the parent tuning job One",
        ),
        (
            {"job": _fixed("0")},
            child(TRANSFER, "One", job=_fixed("1")),
            "differ from those of the parent tuning job One by 12 changes; up to 10",
        ),
        (
            {"ParameterRanges": {**RANGES, "CategoricalParameterRanges": [{"Name": "color", "Values": COLORS}]}},
            child(TRANSFER, "One", job=definition(StaticHyperParameters={"epochs": "2", "color": "color-0"})),
            "by 11 changes; up to 10",
        ),
        (
            {},
            child(TRANSFER, "One", job=definition(Environment={"A": "1"})),
            "Only the following fields in TrainingJobDefinition are allowed to change: [algorithmSpecification, "
            "inputDataConfig, outputDataConfig, staticHyperParameters, roleArn, resourceConfig, stoppingCondition, "
            "vpcConfig, enableManagedSpotTraining, checkpointConfig].",
        ),
    ],
)
def test_what_a_child_must_have_in_common(
    world: ApiWorld, parent: dict[str, Any], body: dict[str, Any], text: str
) -> None:
    run(world, "One", 0.5, **parent)
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **body)
    assert code == "ValidationException"
    assert text in said


def test_a_parent_must_have_ended(world: ApiWorld) -> None:
    create(world, "One")
    code, text = refused(world.sagemaker.create_hyper_parameter_tuning_job, **child(IDENTICAL, "One"))
    assert (code, "One is in status InProgress" in text) == ("ValidationException", True)
    code, text = refused(world.sagemaker.create_hyper_parameter_tuning_job, **child(IDENTICAL, "nowhere"))
    assert (code, text) == ("ValidationException", aws_texts.no_tuning_job("nowhere"))
    nameless = child(IDENTICAL, "One")
    nameless["WarmStartConfig"]["ParentHyperParameterTuningJobs"] = [{}]
    code, text = refused(world.sagemaker.create_hyper_parameter_tuning_job, **nameless)
    assert (code, "needs HyperParameterTuningJobName" in text) == ("ValidationException", True)
