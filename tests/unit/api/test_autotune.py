"""Autotune of tuning jobs: what it chooses, and what Describe shows of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.tuning import autotune
from support.api_world import ApiWorld
from support.tuning import RANGES, definition, tuning_request
from support.tuning_world import described, listed, refused, running

TUNED = "HyperParameterTuningJobConfig"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def body(hints: dict[str, str], **config: Any) -> dict[str, Any]:
    auto = [{"Name": name, "ValueHint": hint} for name, hint in hints.items()]
    return {
        **tuning_request("Tune", **{"ParameterRanges": {"AutoParameters": auto}, **config}),
        "Autotune": {"Mode": "Enabled"},
    }


def test_describe_shows_the_ranges(world: ApiWorld) -> None:
    """The example of AWS's guide: max_depth with the hint 4."""
    world.sagemaker.create_hyper_parameter_tuning_job(**body({"max_depth": "4", "optimizer": '"adam"'}))
    shown = described(world)
    assert shown["Autotune"] == {"Mode": "Enabled"}
    assert shown[TUNED]["ParameterRanges"] == {
        "IntegerParameterRanges": [{"Name": "max_depth", "MinValue": "2", "MaxValue": "8"}]
    }
    assert shown["TrainingJobDefinition"]["StaticHyperParameters"]["optimizer"] == '"adam"'
    name = running(world, 2)[0]
    (trial,) = [one for one in listed(world) if one["TrainingJobName"] == name]
    assert 2 <= int(trial["TunedHyperParameters"]["max_depth"]) <= 8
    child = world.sagemaker.describe_training_job(TrainingJobName=name)["HyperParameters"]
    assert (child["optimizer"], child["epochs"]) == ('"adam"', "2")


def test_own_ranges_stay_and_each_definition_has_its_hints(world: ApiWorld) -> None:
    request = body({})
    config, single = request[TUNED], request.pop("TrainingJobDefinition")
    own = {
        "TuningObjective": config.pop("HyperParameterTuningJobObjective"),
        "HyperParameterRanges": {**RANGES, "AutoParameters": [{"Name": "dropout", "ValueHint": "0.8"}]},
    }
    del config["ParameterRanges"]
    request["TrainingJobDefinitions"] = [{**single, **own, "DefinitionName": name} for name in ("one", "two")]
    world.sagemaker.create_hyper_parameter_tuning_job(**request)
    for one in described(world)["TrainingJobDefinitions"]:
        names = [each["Name"] for each in one["HyperParameterRanges"]["ContinuousParameterRanges"]]
        assert names == ["lr", "dropout"]
        assert one["HyperParameterRanges"]["IntegerParameterRanges"] == RANGES["IntegerParameterRanges"]


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        ("4", ("IntegerParameterRanges", "2", "8")),
        ("1", ("IntegerParameterRanges", "1", "2")),
        ("0.25", ("ContinuousParameterRanges", "0.125", "0.5")),
        ("0.5", ("ContinuousParameterRanges", "0.25", "0.75")),
        ("8.0", ("ContinuousParameterRanges", "4.0", "16.0")),
        *((text, None) for text in ("0", "-3", "true", '"sgd"', "", "nan", "inf", "1e308", "0.0")),
    ],
)
def test_ranges_of_hints(hint: str, found: tuple[str, str, str] | None) -> None:
    ranges, static = autotune.ranges_of({"AutoParameters": [{"Name": "a", "ValueHint": hint}]})
    if found is None:
        assert (ranges, static) == ({}, {"a": hint})
    else:
        member, low, high = found
        assert (ranges, static) == ({member: [{"Name": "a", "MinValue": low, "MaxValue": high}]}, {})


def test_the_sdks_own_hyperparameters_are_not_tuned() -> None:
    given = {"AutoParameters": [{"Name": "sagemaker_container_log_level", "ValueHint": "20"}]}
    assert autotune.ranges_of(given) == ({}, {"sagemaker_container_log_level": "20"})


def test_only_choices_that_can_be_carried_out_are_made() -> None:
    request = body({"a": "4"})
    criteria = "TuningJobCompletionCriteria"
    every = autotune.settled(request, lambda _: True)[TUNED]
    assert every["TrainingJobEarlyStoppingType"] == "Auto"
    assert every[criteria] == {"ConvergenceDetected": {"CompleteOnConvergence": "Enabled"}}
    none = autotune.settled(request, lambda _: False)[TUNED]
    assert {"TrainingJobEarlyStoppingType", criteria}.isdisjoint(none)
    own = {"TrainingJobEarlyStoppingType": "Off", criteria: {"TargetObjectiveMetricValue": 0.5}}
    given = autotune.settled(body({"a": "4"}, **own), lambda _: True)[TUNED]
    assert {name: given[name] for name in own} == own
    assert autotune.settled(tuning_request("Tune"), lambda _: True) == tuning_request("Tune")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (body({"optimizer": "adam"}), "Autotune gives one to those of AutoParameters whose ValueHint is a number"),
        (body({"epochs": "3"}), "The hyperparameter epochs is static and has a range"),
        (body({"a": "3"}, Strategy="Grid"), "Grid search takes categorical parameters only"),
    ],
)
def test_what_cannot_be_tuned(world: ApiWorld, request_: dict[str, Any], text: str) -> None:
    code, said = refused(world.sagemaker.create_hyper_parameter_tuning_job, **request_)
    assert (code, text in said) == ("ValidationException", True)


def test_without_hints_it_is_an_ordinary_tuning_job(world: ApiWorld) -> None:
    request = {**tuning_request("Tune", job=definition()), "Autotune": {"Mode": "Enabled"}}
    world.sagemaker.create_hyper_parameter_tuning_job(**request)
    assert described(world)[TUNED]["ParameterRanges"] == RANGES
