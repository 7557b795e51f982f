"""Search and GetSearchSuggestions for tuning jobs, through boto3 and a real server."""

from collections.abc import Iterator
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.tuning import definition, tuning_request
from support.tuning_world import create, described, end, refused, running, status
from support.world import until

ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:hyper-parameter-tuning-job/"
ONE = {"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1}
SEVERAL = {"DefinitionName": "two", "TuningObjective": {"Type": "Minimize", "MetricName": "loss"}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, bridge: MotoBridge) -> Iterator[ApiWorld]:
    """One has ended with loss 0.25, warm starts from none; Child has ended with loss 0.5 and is One's child; Waits
    has not ended. A second lies between them.
    """
    with ApiWorld(tmp_path_factory.mktemp("search"), bridge) as running:
        running.objects.put("b", "k", b"1")
        fill(running)
        yield running


def fill(world: ApiWorld) -> None:
    finish(world, "One", 0.25, tags={"team": "vision"}, ResourceLimits=ONE)
    parents = {
        "ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": "One"}],
        "WarmStartType": "IdenticalDataAndAlgorithm",
    }
    body = {**tuning_request("Child", ResourceLimits=ONE), "WarmStartConfig": parents}
    world.sagemaker.create_hyper_parameter_tuning_job(**body)
    finish(world, "Child", 0.5)
    job = definition(StaticHyperParameters={"epochs": "7"}, EnableManagedSpotTraining=True)
    job["StoppingCondition"]["MaxWaitTimeInSeconds"] = 7200
    create(world, "Waits", job=job, RandomSeed=9)
    running(world, 2, "Waits")
    world.clock.turn(5)


def finish(world: ApiWorld, name: str, loss: float, **given: Any) -> None:
    if given:
        create(world, name, **given)
    end(world, running(world, 1, name)[0], loss)
    until(lambda: status(world, name) == "Completed")
    world.clock.turn(1)


def ask(world: ApiWorld, *filters: tuple[str, ...], **options: Any) -> dict[str, Any]:
    made = [dict(zip(("Name", "Operator", "Value"), one, strict=False)) for one in filters]
    given = {"SearchExpression": {"Filters": made}} if made else {}
    options = {"SortBy": "HyperParameterTuningJobName", "SortOrder": "Ascending", **options}
    answer: dict[str, Any] = world.sagemaker.search(Resource="HyperParameterTuningJob", **given, **options)
    return answer


def names(answer: dict[str, Any]) -> str:
    return " ".join(one["HyperParameterTuningJob"]["HyperParameterTuningJobName"] for one in answer["Results"])


def test_a_record_is_what_describe_shows_and_the_tags(world: ApiWorld) -> None:
    (result,) = ask(world, ("HyperParameterTuningJobName", "Equals", "One"))["Results"]
    shown = described(world, "One")
    del shown["ResponseMetadata"]
    assert result == {"HyperParameterTuningJob": {**shown, "Tags": [{"Key": "team", "Value": "vision"}]}}


RANGES = "HyperParameterTuningJobConfig.ParameterRanges"
LOSS = "FinalHyperParameterTuningJobObjectiveMetric"


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (("HyperParameterTuningJobArn", "Equals", f"{ARN}one"), "One"),
        (("HyperParameterTuningJobName", "Contains", "hil"), "Child"),
        (("HyperParameterTuningJobStatus", "Equals", "InProgress"), "Waits"),
        (("HyperParameterTuningJobStatus", "In", "Completed,Failed"), "Child One"),
        (("HyperParameterTuningJobConfig.Strategy", "Equals", "Random"), "Child One Waits"),
        (("HyperParameterTuningJobConfig.ResourceLimits.MaxNumberOfTrainingJobs", "GreaterThan", "1"), "Waits"),
        (("HyperParameterTuningJobConfig.RandomSeed", "Equals", "9"), "Waits"),
        ((f"{RANGES}.IntegerParameterRanges.Name", "Equals", "bs"), "Child One Waits"),
        (("TrainingJobDefinition.StaticHyperParameters.epochs", "GreaterThan", "5"), "Waits"),
        (("TrainingJobDefinition.EnableManagedSpotTraining", "Equals", "true"), "Waits"),
        (("TrainingJobDefinition.ResourceConfig.InstanceType", "Equals", "ml.m5.large"), "Child One Waits"),
        (("TrainingJobDefinitions", "Exists"), ""),
        (("HyperParameterTuningEndTime", "NotExists"), "Waits"),
        (("TrainingJobStatusCounters.Completed", "Equals", "1"), "Child One"),
        (("TrainingJobStatusCounters.InProgress", "Equals", "2"), "Waits"),
        (("ObjectiveStatusCounters.Pending", "GreaterThan", "0"), "Waits"),
        (("BestTrainingJob", "Exists"), "Child One"),
        ((f"BestTrainingJob.{LOSS}.Value", "LessThan", "0.3"), "One"),
        ((f"BestTrainingJob.{LOSS}.MetricName", "Equals", "loss"), "Child One"),
        (("BestTrainingJob.TrainingJobName", "Contains", "Child-001"), "Child"),
        (("BestTrainingJob.TrainingJobArn", "Contains", ":training-job/child-001"), "Child"),
        (("BestTrainingJob.TunedHyperParameters.bs", "GreaterThan", "0"), "Child One"),
        (("BestTrainingJob.ObjectiveStatus", "Equals", "Succeeded"), "Child One"),
        (("OverallBestTrainingJob.TuningJobName", "Equals", "One"), "Child"),
        ((f"OverallBestTrainingJob.{LOSS}.Value", "Equals", "0.25"), "Child"),
        (("WarmStartConfig.WarmStartType", "Equals", "IdenticalDataAndAlgorithm"), "Child"),
        (("WarmStartConfig.ParentHyperParameterTuningJobs.HyperParameterTuningJobName", "Equals", "One"), "Child"),
        (("FailureReason", "Exists"), ""),
        (("ConsumedResources.RuntimeInSeconds", "GreaterThanOrEqualTo", "5"), "Waits"),
        (("TuningJobCompletionDetails.NumberOfTrainingJobsObjectiveNotImproving", "Equals", "0"), "Child One Waits"),
        (("Tags.team", "Equals", "vision"), "One"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_filters(world: ApiWorld, one: tuple[str, ...], found: str) -> None:
    assert names(ask(world, one)) == found


def test_items_of_a_list(world: ApiWorld) -> None:
    ranges = f"{RANGES}.ContinuousParameterRanges"
    nested = {
        "NestedPropertyName": ranges,
        "Filters": [
            {"Name": f"{ranges}.Name", "Value": "lr"},
            {"Name": f"{ranges}.ScalingType", "Value": "Logarithmic"},
        ],
    }
    found = world.sagemaker.search(
        Resource="HyperParameterTuningJob",
        SearchExpression={"NestedFilters": [nested]},
        SortBy="HyperParameterTuningJobName",
        SortOrder="Descending",
    )
    assert names(found) == "Waits One Child"


def test_orders_and_pages(world: ApiWorld) -> None:
    assert names(ask(world, SortBy="CreationTime")) == "One Child Waits"
    assert names(ask(world, SortBy=f"BestTrainingJob.{LOSS}.Value")) == "Waits One Child"
    assert names(ask(world, SortBy="TrainingJobDefinition.StaticHyperParameters.epochs")).endswith("Waits")
    first = ask(world, MaxResults=2)
    assert (names(first), first["TotalHits"]["Value"]) == ("Child One", 3)
    assert names(ask(world, MaxResults=2, NextToken=first["NextToken"])) == "Waits"
    code, _ = refused(world.sagemaker.search, Resource="TrainingJob", MaxResults=2, NextToken=first["NextToken"])
    assert code == "ValidationException"


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (("TrainingJobName", "Equals", "x"), "Unknown property name: TrainingJobName"),
        (("Metrics.loss", "Equals", "1"), "Unknown property name: Metrics.loss"),
        (("HyperParameterTuningJobName", "GreaterThan", "x"), "The operator GreaterThan is not supported"),
        (("TrainingJobStatusCounters.Completed", "Equals", "x"), "is not a number"),
    ],
)
def test_what_is_refused(world: ApiWorld, one: tuple[str, ...], text: str) -> None:
    expression = {"Filters": [dict(zip(("Name", "Operator", "Value"), one, strict=False))]}
    code, said = refused(world.sagemaker.search, Resource="HyperParameterTuningJob", SearchExpression=expression)
    assert (code, text in said) == ("ValidationException", True)


def test_suggestions(world: ApiWorld) -> None:
    def suggested(hint: str) -> list[str]:
        query = {"PropertyNameQuery": {"PropertyNameHint": hint}}
        answer = world.sagemaker.get_search_suggestions(Resource="HyperParameterTuningJob", SuggestionQuery=query)
        return [one["PropertyName"] for one in answer["PropertyNameSuggestions"]]

    assert suggested("HyperParameterTuningJobS") == ["HyperParameterTuningJobStatus"]
    assert suggested("Tags.") == ["Tags.team"]
    assert suggested("TrainingJobDefinition.StaticHyperParameters.") == [
        "TrainingJobDefinition.StaticHyperParameters.epochs"
    ]
    assert suggested("BestTrainingJob.Tuned") == [
        "BestTrainingJob.TunedHyperParameters.bs",
        "BestTrainingJob.TunedHyperParameters.lr",
    ]


def test_training_jobs_of_a_tuning_job(world: ApiWorld) -> None:
    filters = [{"Name": "TuningJobArn", "Value": f"{ARN}waits"}]
    found = world.sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": filters})
    assert found["TotalHits"]["Value"] == 2
    without = [{"Name": "TuningJobArn", "Operator": "NotExists"}]
    found = world.sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": without})
    assert found["TotalHits"]["Value"] == 0
