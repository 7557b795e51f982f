"""Search for training jobs through boto3 and a real server."""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model import lifecycle, training
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.sinks import MetricPoint
from support.api_world import ApiWorld
from support.world import key, request

FIRST_S = 1_700_000_000


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def channel(name: str, uri: str, **more: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}, **more}


def put(world: ApiWorld, name: str, tags: dict[str, str] | None = None, **changes: Any) -> None:
    """A job that never runs, created a second after the one before."""
    job = training.create(key(name), f"id-{name}", request(name, **changes), tags or {}, world.clock.now_ms())
    world.engine._store.insert(job)
    world.clock.turn(1)


def fail(world: ApiWorld, name: str) -> None:
    """Ends the job a second and a half after its download began."""
    store, job = world.engine._store, world.job(name)
    now = world.clock.now_ms()
    job = store.update(lifecycle.advance(job, SecondaryStatus.DOWNLOADING, now))
    store.update(lifecycle.advance(job, SecondaryStatus.FAILED, now + 1500, failure_reason="AlgorithmError: boom"))


def measure(world: ApiWorld, name: str, *points: tuple[str, float]) -> None:
    job = world.job(name)
    stream = world.engine._store.open_stream(job, "algo-1", f"{name}/algo-1-1", 0)
    made = [MetricPoint(metric, value, 5000) for metric, value in points]
    world.engine._store.append_output(stream, [], None, made, 0)


def ask(world: ApiWorld, expression: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    given = {} if expression is None else {"SearchExpression": expression}
    options = {"SortBy": "TrainingJobName", "SortOrder": "Ascending", **options}
    answer: dict[str, Any] = world.sagemaker.search(Resource="TrainingJob", **given, **options)
    return answer


def names(answer: dict[str, Any]) -> list[str]:
    return [record["TrainingJob"]["TrainingJobName"] for record in answer["Results"]]


def where(name: str, operator: str | None = None, value: str | None = None) -> dict[str, Any]:
    made = {"Name": name, "Operator": operator, "Value": value}
    return {member: text for member, text in made.items() if text is not None}


def filtered(world: ApiWorld, *filters: tuple[str, ...]) -> str:
    """Names of the jobs that satisfy all filters, in one text."""
    return " ".join(names(ask(world, {"Filters": [where(*one) for one in filters]})))


def refused(world: ApiWorld, **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        world.sagemaker.search(**{"Resource": "TrainingJob", **parameters})
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    return str(caught.value.response["Error"]["Message"])


def refused_filter(world: ApiWorld, *one: str) -> str:
    return refused(world, SearchExpression={"Filters": [where(*one)]})


# --- filters --------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(world: ApiWorld) -> ApiWorld:
    """Jobs a, b and c, each with something of its own."""
    put(
        world,
        "a",
        {"team": "vision", "with.dot": "x"},
        HyperParameters={"lr": "5e-05", "epochs": "3", "ü\"'": "é", "mode": '"fast"'},
        InputDataConfig=[
            channel("train", "s3://data/one"),
            channel("test", "s3://data/two", CompressionType="Gzip", InputMode="Pipe"),
        ],
        EnableManagedSpotTraining=True,
        VpcConfig={"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]},
        Environment={"A.B": "1"},
    )
    resources = {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 100}
    put(
        world,
        "b",
        {"team": "text"},
        ResourceConfig=resources,
        HyperParameters={"lr": "0.5", "epochs": "10.7"},
        InputDataConfig=[channel("train", "s3://data/two"), channel("test", "s3://data/one")],
        OutputDataConfig={"S3OutputPath": "s3://out/b//", "CompressionType": "NONE"},
    )
    put(world, "c", HyperParameters={"lr": "high"})
    fail(world, "c")
    measure(world, "a", ("acc", 0.5), ("acc", 0.9), ("loss", 1.5))
    measure(world, "b", ("acc", 0.7))
    return world


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (("TrainingJobName", "Equals", "a"), "a"),
        (("TrainingJobName", None, "a"), "a"),
        (("TrainingJobName", "NotEquals", "a"), "b c"),
        (("TrainingJobName", "In", "a, c,x"), "a c"),
        (("TrainingJobName", "Equals", "A"), ""),
        (("TrainingJobArn", "Contains", "training-job/b"), "b"),
        (("TrainingJobStatus", "Equals", "InProgress"), "a b"),
        (("SecondaryStatus", "Equals", "Failed"), "c"),
        (("FailureReason", "Contains", "boom"), "c"),
        (("FailureReason", "NotExists"), "a b"),
        (("ResourceConfig.InstanceType", "Contains", "p3"), "b"),
        (("ResourceConfig.VolumeSizeInGB", "GreaterThan", "10"), "b"),
        (("ResourceConfig.VolumeSizeInGB", "LessThanOrEqualTo", "10.0"), "a c"),
        (("ResourceConfig.VolumeSizeInGB", "NotEquals", "10"), "b"),
        (("EnableManagedSpotTraining", "Equals", "true"), "a"),
        (("EnableManagedSpotTraining", "Equals", "False"), "b c"),
        (("OutputDataConfig.CompressionType", "Equals", "GZIP"), "a c"),
        (("ModelArtifacts.S3ModelArtifacts", "Equals", "s3://out/b/b/output/model/"), "b"),
        (("ModelArtifacts.S3ModelArtifacts", "Equals", "s3://out/models/a/output/model.tar.gz"), "a"),
        (("VpcConfig", "Exists"), "a"),
        (("VpcConfig.Subnets", "Equals", "subnet-2"), "a"),
        (("VpcConfig.Subnets", "NotEquals", "subnet-2"), "b c"),
        (("Environment.A.B", "Equals", "1"), "a"),
        (("TuningJobArn", "NotExists"), "a b c"),
        (("TrainingTimeInSeconds", "GreaterThanOrEqualTo", "1"), "c"),
        (("BillableTimeInSeconds", "Exists"), "c"),
        (("SecondaryStatusTransitions.StatusMessage", "Contains", "Downloading"), "c"),
        (("Tags", "Exists"), "a b"),
        (("Tags.team", "Equals", "vision"), "a"),
        (("Tags.team", "NotEquals", "vision"), "b c"),
        (("Tags.team", "In", "text,vision"), "a b"),
        (("Tags.with.dot", "Exists"), "a"),
        (("Metrics.acc", "GreaterThan", "0.6"), "a b"),
        (("Metrics.acc", "LessThan", "0.6"), ""),
        (("Metrics.loss", "NotExists"), "b c"),
        (("FinalMetricDataList", "Exists"), "a b"),
        (("FinalMetricDataList.MetricName", "Equals", "loss"), "a"),
        (("HyperParameters.lr", "LessThan", "0.5"), "a"),
        (("HyperParameters.lr", "Equals", "0.00005"), "a"),
        (("HyperParameters.lr", "Equals", "high"), "c"),
        (("HyperParameters.lr", "NotEquals", "0.50"), "a c"),
        (("HyperParameters.lr", "Exists"), "a b c"),
        (("HyperParameters.epochs", "Equals", "10"), "b"),
        (("HyperParameters.epochs", "Equals", "10.0"), ""),
        (("HyperParameters.epochs", "GreaterThan", "10"), ""),
        (("HyperParameters.epochs", "GreaterThan", "10.0"), "b"),
        (("HyperParameters.epochs", "NotExists"), "c"),
        (("HyperParameters.mode", "Equals", '"fast"'), "a"),
        (("HyperParameters.ü\"'", "Equals", "é"), "a"),
        (("InputDataConfig.ChannelName", "Equals", "train"), "a b"),
        (("InputDataConfig.ChannelName", "NotExists"), "c"),
        (("InputDataConfig.CompressionType", "Equals", "None"), "a b"),
    ],
)
def test_filters(three: ApiWorld, one: tuple[str, ...], found: str) -> None:
    assert filtered(three, one) == found


def test_times(three: ApiWorld) -> None:
    assert filtered(three, ("CreationTime", "Equals", "2023-11-14T22:13:21")) == "b"
    assert filtered(three, ("CreationTime", "NotEquals", "2023-11-14T22:13:21Z")) == "a c"
    assert filtered(three, ("CreationTime", "LessThan", "2023-11-14T22:13:21")) == "a"
    assert filtered(three, ("CreationTime", "GreaterThanOrEqualTo", "2023-11-14T23:13:21+01:00")) == "b c"
    assert filtered(three, ("LastModifiedTime", "Equals", "2023-11-14T22:13:24")) == "c"
    assert filtered(three, ("LastModifiedTime", "Equals", "2023-11-14T22:13:24.500")) == "c"
    assert filtered(three, ("LastModifiedTime", "Equals", "2023-11-14T22:13:24.499")) == ""
    assert filtered(three, ("TrainingEndTime", "GreaterThan", "2023-11-14T22:13:24")) == "c"
    assert filtered(three, ("TrainingStartTime", "NotExists")) == "a b"


def test_one_item_satisfies_all_nested_filters(three: ApiWorld) -> None:
    name, uri = "InputDataConfig.ChannelName", "InputDataConfig.DataSource.S3DataSource.S3Uri"

    def nested(*filters: dict[str, Any], of: str = "InputDataConfig") -> list[str]:
        return names(ask(three, {"NestedFilters": [{"NestedPropertyName": of, "Filters": [*filters]}]}))

    assert nested(where(name, "Equals", "train"), where(uri, "Contains", "one")) == ["a"]
    assert nested(where(name, "Equals", "train")) == ["a", "b"]
    assert nested(where("InputDataConfig.CompressionType", "Equals", "Gzip")) == ["a"]
    status, begun = "SecondaryStatusTransitions.Status", "SecondaryStatusTransitions.StartTime"
    late = where(begun, "GreaterThan", "2023-11-14T22:13:22")
    assert nested(where(status, "Equals", "Downloading"), late, of="SecondaryStatusTransitions") == ["c"]
    assert nested(where(status, "Equals", "Starting"), late, of="SecondaryStatusTransitions") == []
    metric, value = "FinalMetricDataList.MetricName", "FinalMetricDataList.Value"
    good = [where(metric, "Equals", "acc"), where(value, "Equals", "0.9")]
    assert nested(*good, of="FinalMetricDataList") == ["a"]
    assert nested(where(metric, "Equals", "loss"), good[1], of="FinalMetricDataList") == []
    assert nested(where("VpcConfig.Subnets", "In", "subnet-2,x"), of="VpcConfig.Subnets") == ["a"]


def test_expressions_nest(three: ApiWorld) -> None:
    a, b, c = ({"Filters": [where("TrainingJobName", "Equals", name)]} for name in "abc")
    either = {"SubExpressions": [a, b], "Operator": "Or"}
    assert names(ask(three, either)) == ["a", "b"]
    assert names(ask(three, {"SubExpressions": [a, b]})) == []
    vision = where("Tags.team", "Equals", "vision")
    assert names(ask(three, {"SubExpressions": [either], "Filters": [vision]})) == ["a"]
    assert names(ask(three, {"SubExpressions": [either, c], "Filters": [vision], "Operator": "Or"})) == ["a", "b", "c"]
    deep = a
    for _ in range(49):
        deep = {"SubExpressions": [deep]}
    assert names(ask(three, deep)) == ["a"]


# --- records --------------------------------------------------------------------------------------------------------


def test_a_record_is_what_describe_shows_and_the_tags(three: ApiWorld) -> None:
    (found,) = ask(three, {"Filters": [where("TrainingJobName", "Equals", "a")]})["Results"]
    record = found["TrainingJob"]
    described = three.sagemaker.describe_training_job(TrainingJobName="a")
    assert {name: value for name, value in record.items() if name != "Tags"} == {
        name: value for name, value in described.items() if name not in ("ResponseMetadata", "ProfilingStatus")
    }
    assert record["Tags"] == [{"Key": "team", "Value": "vision"}, {"Key": "with.dot", "Value": "x"}]


def test_without_an_expression_all_jobs_are_found_last_modified_first(three: ApiWorld) -> None:
    answer = three.sagemaker.search(Resource="TrainingJob")
    assert names(answer) == ["c", "b", "a"]
    assert answer["TotalHits"] == {"Value": 3, "Relation": "EqualTo"}
    assert "NextToken" not in answer


def test_visibility_conditions_and_other_accounts(three: ApiWorld) -> None:
    assert names(ask(three, VisibilityConditions=[{"Key": "Tags.team", "Value": "text"}])) == ["b"]
    assert names(ask(three, CrossAccountFilterOption="CrossAccount")) == []
    assert names(ask(three, CrossAccountFilterOption="SameAccount")) == ["a", "b", "c"]
    assert three.client("sagemaker", account="210987654321").search(Resource="TrainingJob")["Results"] == []
    assert three.client("sagemaker", region="eu-west-1").search(Resource="TrainingJob")["Results"] == []


def test_other_resources_are_motos(three: ApiWorld) -> None:
    three.sagemaker.create_experiment(ExperimentName="mine")
    (found,) = three.sagemaker.search(Resource="Experiment")["Results"]
    assert found["Experiment"]["ExperimentName"] == "mine"
    assert "at 'resource' failed to satisfy constraint" in refused(three, Resource="Coffee")


# --- order and pages ------------------------------------------------------------------------------------------------


def pages(world: ApiWorld, size: int, **options: Any) -> list[list[str]]:
    wanted = {"Resource": "TrainingJob", **options}
    found = world.sagemaker.get_paginator("search").paginate(**wanted, PaginationConfig={"PageSize": size})
    return [names(page) for page in found]


@pytest.mark.parametrize(
    ("sort_by", "ascending"),
    [
        ("TrainingJobName", "a b c d"),
        ("CreationTime", "a b c d"),
        ("LastModifiedTime", "a b d c"),
        ("ResourceConfig.VolumeSizeInGB", "a c d b"),
        ("HyperParameters.lr", "d a b c"),
        ("HyperParameters.none", "a b c d"),
        ("Tags.team", "c d b a"),
        ("Metrics.acc", "c d b a"),
        ("EnableManagedSpotTraining", "b c d a"),
        ("FailureReason", "a b d c"),
    ],
)
@pytest.mark.parametrize("size", [1, 3])
def test_every_order_pages_through_all(three: ApiWorld, sort_by: str, ascending: str, size: int) -> None:
    put(three, "d")
    three.clock.turn(10)
    three.engine.jobs.update(key("c"), lambda job: {"Environment": {"A": "1"}})
    found = pages(three, size, SortBy=sort_by, SortOrder="Ascending")
    assert " ".join(name for page in found for name in page) == ascending
    assert [len(page) for page in found][:-1] == [size] * (len(found) - 1)
    backwards = [name for page in pages(three, size, SortBy=sort_by) for name in page]
    assert backwards == ascending.split()[::-1]


def test_pages_are_stable_while_jobs_come_and_go(world: ApiWorld) -> None:
    for number in range(0, 20, 2):
        put(world, f"job-{number:02}")
    first = ask(world, MaxResults=4)
    put(world, "job-01")
    put(world, "job-09")
    world.engine._store.delete(world.job("job-06"))
    second = ask(world, MaxResults=4, NextToken=first["NextToken"])
    assert names(first) + names(second) == [f"job-{number:02}" for number in (0, 2, 4, 6, 8, 9, 10, 12)]
    assert [answer["TotalHits"]["Value"] for answer in (first, second)] == [10, 11]


def test_a_page_has_ten_jobs_unless_asked_otherwise(world: ApiWorld) -> None:
    for number in range(12):
        put(world, f"job-{number:02}")
    assert len(ask(world)["Results"]) == 10
    assert len(ask(world, MaxResults=100)["Results"]) == 12


def token(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


def forged(world: ApiWorld) -> Sequence[str]:
    mine = ask(world, MaxResults=1)["NextToken"]
    print_, *_ = json.loads(base64.urlsafe_b64decode(mine))
    bad = (True, [1], {}, 10**30, "\ud800")
    return [token([print_, value, "id"]) for value in bad] + [token([print_, "a", 1]), token([print_]), "x", "ü"]


def test_tokens_that_are_not_ours_are_refused(three: ApiWorld) -> None:
    for garbage in forged(three):
        options = {"SortBy": "TrainingJobName", "SortOrder": "Ascending", "NextToken": garbage}
        assert refused(three, **options) == "Invalid pagination token"


def test_a_token_goes_on_with_its_own_search_only(three: ApiWorld) -> None:
    mine = ask(three, MaxResults=1)["NextToken"]
    assert refused(three, NextToken=mine) == "Invalid pagination token"
    assert names(ask(three, MaxResults=2, NextToken=mine)) == ["b", "c"]


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (("Coffee", "Exists"), "Unknown property name: Coffee"),
        (("ResourceConfig.Coffee", "Exists"), "Unknown property name: ResourceConfig.Coffee"),
        (("TrainingJobName.x", "Exists"), "Unknown property name: TrainingJobName.x"),
        (("InputDataConfig.", "Exists"), "Unknown property name: InputDataConfig."),
        (("TrainingJobName", "Equals"), "The filter TrainingJobName Equals needs a Value"),
        (("TrainingJobName", "GreaterThan", "a"), "The operator GreaterThan is not supported for the property Tra"),
        (("CreationTime", "Contains", "2023"), "The operator Contains is not supported for the property CreationTime"),
        (("EnableNetworkIsolation", "LessThan", "true"), "The operator LessThan is not supported"),
        (("ResourceConfig", "Equals", "x"), "The operator Equals is not supported for the property ResourceConfig"),
        (("InputDataConfig", "Equals", "x"), "The operator Equals is not supported for the property InputDataConfig"),
        (("ResourceConfig.VolumeSizeInGB", "Equals", "ten"), "The Value 'ten' of the filter ResourceConfig.VolumeSi"),
        (("ResourceConfig.VolumeSizeInGB", "Equals", "NaN"), "is not a number"),
        (("ResourceConfig.VolumeSizeInGB", "Equals", "1" * 1000), "is not a number"),
        (("ResourceConfig.VolumeSizeInGB", "Equals", "[" * 1000), "is not a number"),
        (("HyperParameters.lr", "LessThan", "low"), "is not a number, which this operator needs"),
        (("EnableNetworkIsolation", "Equals", "yes"), "is not true or false"),
        (("CreationTime", "Equals", "yesterday"), "is not a time of the form YYYY-mm-dd'T'HH:MM:SS"),
        (("TrainingJobName", "Sounds", "a"), "'searchExpression.filters.1.member.operator' failed to satisfy"),
    ],
)
def test_bad_filters(world: ApiWorld, one: tuple[str, ...], text: str) -> None:
    assert text in refused_filter(world, *one)


def test_bad_expressions(world: ApiWorld) -> None:
    def text(**expression: Any) -> str:
        return refused(world, SearchExpression=expression)

    exists = where("TrainingJobName", "Exists")
    assert "must have at least one subexpression, filter, or nested filter" in text(Operator="And")
    twice = [where("TrainingJobName", "Contains", "a"), where("Tags.a", "Contains", "b")]
    assert text(Filters=twice) == "'CONTAINS' operator usage limit of 1 exceeded."
    assert text(SubExpressions=[{"Filters": [one]} for one in twice]).startswith("'CONTAINS' operator usage")
    full = {"Filters": [exists] * 20}
    assert "up to 50 SubExpressions" in text(SubExpressions=[full, full, full])
    nested = {"NestedPropertyName": "ResourceConfig", "Filters": [exists]}
    assert "NestedPropertyName ResourceConfig is not a list" in text(NestedFilters=[nested])
    nested = {"NestedPropertyName": "InputDataConfig", "Filters": [exists]}
    assert "TrainingJobName is not about the items of InputDataConfig" in text(NestedFilters=[nested])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"SortBy": "Coffee"}, "Unknown property name: Coffee"),
        ({"SortBy": "InputDataConfig.ChannelName"}, "is not a single value"),
        ({"SortBy": "ResourceConfig"}, "is not a single value"),
        ({"MaxResults": 101}, "'maxResults' failed to satisfy"),
        ({"VisibilityConditions": [{"Key": "team", "Value": "x"}]}, "must have the form Tags.<key>"),
    ],
)
def test_bad_options(world: ApiWorld, options: dict[str, Any], text: str) -> None:
    assert text in refused(world, **options)


# --- suggestions ----------------------------------------------------------------------------------------------------


def suggested(world: ApiWorld, hint: str, **where: str) -> list[str]:
    query = {"PropertyNameQuery": {"PropertyNameHint": hint}}
    answer = world.client("sagemaker", **where).get_search_suggestions(Resource="TrainingJob", SuggestionQuery=query)
    return [one["PropertyName"] for one in answer["PropertyNameSuggestions"]]


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        ("Tags.", ["Tags.team", "Tags.with.dot"]),
        ("Metrics.", ["Metrics.acc", "Metrics.loss"]),
        ("HyperParameters.", [f"HyperParameters.{name}" for name in ("epochs", "lr", "mode", "ü\"'")]),
        ("HyperParameters.l", ["HyperParameters.lr"]),
        ("TrainingJobN", ["TrainingJobName"]),
        ("InputDataConfig.DataSource.S3DataSource.S3U", ["InputDataConfig.DataSource.S3DataSource.S3Uri"]),
        ("%", []),
    ],
)
def test_suggestions_begin_with_the_hint(three: ApiWorld, hint: str, found: list[str]) -> None:
    assert suggested(three, hint) == found
    for name in found:
        three.sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": [where(name, "Exists")]})


def test_suggestions_are_of_this_account_and_few(three: ApiWorld) -> None:
    assert suggested(three, "Tags.", account="210987654321") == []
    assert len(suggested(three, "")) == 100
