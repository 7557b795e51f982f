"""BatchPutMetrics and BatchGetMetrics through boto3."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.sinks import MetricPoint
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import key, request

BASE = 1_700_000_000 - 1_700_000_000 % 3600
JOB_ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/one"
COMPONENT = "one-aws-training-job"
COMPONENT_ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:experiment-trial-component/{COMPONENT}"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def put(world: ApiWorld, *samples: tuple[float, float], component: str = COMPONENT, step: int = 0) -> dict[str, Any]:
    data = [
        {"MetricName": "loss", "Timestamp": datetime.fromtimestamp(at, timezone.utc), "Value": value, "Step": step}
        for at, value in samples
    ]
    answer: dict[str, Any] = world.client("sagemaker-metrics").batch_put_metrics(
        TrialComponentName=component, MetricData=data
    )
    return answer


def query(**changes: Any) -> dict[str, Any]:
    return {
        "MetricName": "loss", "ResourceArn": JOB_ARN, "MetricStat": "Avg", "Period": "OneMinute",
        "XAxisType": "Timestamp", **changes,
    }  # fmt: skip


def get(world: ApiWorld, **changes: Any) -> tuple[str, list[int], list[float]]:
    (found,) = world.client("sagemaker-metrics").batch_get_metrics(MetricQueries=[query(**changes)])[
        "MetricQueryResults"
    ]
    return found["Status"], found["XAxisValues"], found["MetricValues"]


def test_what_is_put_to_a_jobs_component_comes_back_by_period(world: ApiWorld) -> None:
    world.waiting_job("one")
    assert "Errors" not in put(world, (BASE + 1, 1.0), (BASE + 59.5, 3.0), (BASE + 61, 10.0), (BASE + 3600, 0.0))
    minutes = [BASE, BASE + 60, BASE + 3600]
    assert get(world) == ("Complete", minutes, [2.0, 10.0, 0.0])
    assert get(world, ResourceArn=COMPONENT_ARN) == get(world)
    assert get(world, Period="OneHour", MetricStat="Max") == ("Complete", [BASE, BASE + 3600], [10.0, 0.0])
    assert get(world, Period="FiveMinute", MetricStat="Count")[2] == [3.0, 1.0]
    assert get(world, Period="OneHour", MetricStat="Min")[2] == [1.0, 0.0]
    assert get(world, Period="OneMinute", MetricStat="StdDev")[2] == [1.0, 0.0, 0.0]
    assert get(world, Period="OneHour", MetricStat="Last")[2] == [10.0, 0.0]
    assert get(world, Start=BASE + 60, End=BASE + 3600) == ("Complete", [BASE + 60], [10.0])
    assert get(world, MetricName="other") == ("Complete", [], [])


def test_iterations_are_an_x_axis_of_their_own(world: ApiWorld) -> None:
    world.waiting_job("one")
    put(world, (BASE, 2.0), (BASE + 500, 4.0), step=7)
    put(world, (BASE + 1, 1.0), step=3)
    iterations = {"Period": "IterationNumber", "XAxisType": "IterationNumber"}
    assert get(world, **iterations) == ("Complete", [3, 7], [1.0, 3.0])
    assert get(world, **iterations, Start=4) == ("Complete", [7], [3.0])
    assert get(world, Period="OneMinute", XAxisType="IterationNumber")[0] == "ValidationError"
    assert get(world, Period="IterationNumber")[0] == "ValidationError"


@pytest.mark.parametrize("enabled", [True, False])
def test_a_jobs_metric_definitions_are_there_when_the_request_says_so(world: ApiWorld, enabled: bool) -> None:
    algorithm = {**request("one")["AlgorithmSpecification"], "EnableSageMakerMetricsTimeSeries": enabled}
    algorithm["MetricDefinitions"] = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    world.create("One", AlgorithmSpecification=algorithm)
    host = world.host("One")
    host.say("loss=4", "loss=2")
    host.end(0)
    world.ended("One")
    found = get(world, MetricStat="Count", Period="OneHour")
    assert found[2] == ([2.0] if enabled else [])
    put(world, (world.clock.now_ms() / 1000, 9.0))
    assert get(world, MetricStat="Max", Period="OneHour")[2] == [9.0]


def test_a_trial_component_of_motos(world: ApiWorld) -> None:
    world.sagemaker.create_trial_component(TrialComponentName="tc")
    put(world, (BASE, 5.0), component="tc")
    arn = COMPONENT_ARN.replace(COMPONENT, "tc")
    assert get(world, ResourceArn=arn) == ("Complete", [BASE], [5.0])
    world.sagemaker.delete_trial_component(TrialComponentName="tc")


def test_metrics_survive_a_restart_and_go_with_their_job(world: ApiWorld) -> None:
    world.create("one")
    world.host("one").end(0)
    world.ended("one")
    put(world, (BASE, 5.0))
    world.restart()
    assert world.engine.metrics.of_component(ACCOUNT, REGION, COMPONENT, "loss")[0].value == 5.0
    world.engine.jobs.delete(key("one"))
    assert world.engine.metrics.of_component(ACCOUNT, REGION, COMPONENT, "loss") == []


def test_an_unknown_component_is_refused(world: ApiWorld) -> None:
    for name in ("nobody", "nobody-aws-training-job"):
        with pytest.raises(ClientError) as caught:
            put(world, (BASE, 1.0), component=name)
        error = caught.value.response
        assert error["Error"]["Code"] == "ResourceNotFound"
        assert name in error["Error"]["Message"]


@pytest.mark.parametrize(
    "arn",
    [
        JOB_ARN.replace("one", "two"),
        JOB_ARN.replace(REGION, "eu-west-1"),
        JOB_ARN.replace(ACCOUNT, "210987654321"),
        JOB_ARN.replace("training-job", "processing-job"),
        COMPONENT_ARN.replace(COMPONENT, "nobody"),
    ],
)
def test_a_query_for_what_is_not_there_says_so_and_leaves_the_others_alone(world: ApiWorld, arn: str) -> None:
    world.waiting_job("one")
    put(world, (BASE, 5.0))
    results = world.client("sagemaker-metrics").batch_get_metrics(MetricQueries=[query(ResourceArn=arn), query()])
    wrong, right = results["MetricQueryResults"]
    assert (wrong["Status"], arn in wrong["Message"]) == ("ValidationError", True)
    assert (right["Status"], right["MetricValues"]) == ("Complete", [5.0])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"TrialComponentName": "UPPER"}, "trialComponentName"),
        ({"MetricData": []}, "metricData"),
        ({"MetricData": [{"MetricName": "m", "Timestamp": 0, "Value": 1.0}] * 11}, "metricData"),
        ({"MetricData": [{"MetricName": "m", "Timestamp": 0, "Value": 1.0, "Step": -1}]}, "step"),
    ],
)
def test_a_broken_constraint_is_named(world: ApiWorld, changes: dict[str, Any], named: str) -> None:
    good = {"TrialComponentName": "x", "MetricData": [{"MetricName": "m", "Timestamp": 0, "Value": 1.0}]}
    with pytest.raises(ClientError) as caught:
        world.client("sagemaker-metrics").batch_put_metrics(**{**good, **changes})
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert named in caught.value.response["Error"]["Message"]


def test_metric_points_of_hosts_are_no_final_metrics(world: ApiWorld) -> None:
    job = world.waiting_job("one")
    world.engine._store.points.put_host(job.id, [MetricPoint("CPUUtilization", 50.0, 1000, "algo-1")])
    assert world.engine.metrics.final(job) == []
